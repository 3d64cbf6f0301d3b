"""Producer and consumer streams sharing freshly allocated arrays (CuPy)."""
import cupy as cp


class PairwisePipeline:
    def __init__(self, points):
        self.make = cp.cuda.Stream(non_blocking=True)
        self.reduce = cp.cuda.Stream(non_blocking=True)
        ready = cp.cuda.get_current_stream().record()
        self.make.wait_event(ready)
        self.reduce.wait_event(ready)
        self.points = points
        with self.reduce:
            self.nearest = cp.full(points.shape[0], cp.inf, dtype=points.dtype)

    def _distances(self, block):
        with self.make:
            diff = self.points[:, None, :] - block[None, :, :]
            dist = cp.einsum("ijk,ijk->ij", diff, diff)
        return dist, self.make.record()

    def _fold(self, dist, made):
        self.reduce.wait_event(made)
        with self.reduce:
            low = dist.min(axis=1)
            cp.minimum(self.nearest, low, out=self.nearest)
        return self.reduce.record()

    def run(self, blocks):
        caller = cp.cuda.get_current_stream()
        self.make.wait_event(caller.record())
        held = None
        try:
            for block in blocks:
                self.make.wait_event(caller.record())
                dist, made = self._distances(block)
                caller.wait_event(made)
                folded = self._fold(dist, made)
                if held is not None:
                    self.make.wait_event(held[1])
                held = (dist, folded)
                del dist
            if held is not None:
                self.make.wait_event(held[1])
        finally:
            self.make.synchronize()
            self.reduce.synchronize()
        return self

    def nearest_root(self):
        with self.reduce:
            root = cp.sqrt(self.nearest)
        host = root.get(stream=self.reduce)
        self.reduce.synchronize()
        return host


def nearest_distances(points, others, block=512):
    points = cp.asarray(points, dtype=cp.float32)
    others = cp.asarray(others, dtype=cp.float32)
    pipeline = PairwisePipeline(points)
    pieces = (others[i : i + block] for i in range(0, others.shape[0], block))
    return pipeline.run(pieces).nearest_root()
