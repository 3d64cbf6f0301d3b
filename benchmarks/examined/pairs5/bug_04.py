"""Out-of-core Gram matrix rows: feature shards streamed through the device, similarity blocks stored on disk."""
import numpy as np
import torch


class Lane:
    def __init__(self, rows, dim, anchors):
        self.stage = torch.empty(rows, dim, pin_memory=True)
        self.out = torch.empty(rows, anchors, pin_memory=True)
        self.x = torch.empty(rows, dim, device="cuda")
        self.stream = torch.cuda.Stream()
        self.finished = torch.cuda.Event()
        self.span = None


class SimilarityWriter:
    def __init__(self, anchors, rows, lanes=2):
        self.anchors = torch.from_numpy(anchors).cuda().t().contiguous()
        torch.cuda.synchronize()
        self.rows = rows
        self.lanes = [Lane(rows, anchors.shape[1], anchors.shape[0]) for _ in range(lanes)]

    def _flush(self, lane, sink):
        if lane.span is not None:
            lane.finished.synchronize()
            lo, hi = lane.span
            sink[lo:hi] = lane.out[: hi - lo].numpy()
            lane.span = None

    def run(self, features, path):
        total = features.shape[0]
        sink = np.lib.format.open_memmap(path, "w+", np.float32, (total, self.anchors.shape[1]))
        for i, lo in enumerate(range(0, total, self.rows)):
            hi = min(lo + self.rows, total)
            lane = self.lanes[i % len(self.lanes)]
            lane.stage[: hi - lo].copy_(torch.from_numpy(features[lo:hi]))
            self._flush(lane, sink)
            with torch.cuda.stream(lane.stream):
                lane.x.copy_(lane.stage, non_blocking=True)
                block = torch.mm(lane.x, self.anchors)
                lane.out.copy_(block, non_blocking=True)
                lane.finished.record()
            lane.span = (lo, hi)
        for lane in self.lanes:
            self._flush(lane, sink)
        sink.flush()
        return sink


def main():
    rng = np.random.default_rng(7)
    anchors = rng.standard_normal((512, 768), dtype=np.float32)
    features = rng.standard_normal((100_000, 768), dtype=np.float32)
    sims = SimilarityWriter(anchors, rows=8192).run(features, "sims.npy")
    print(sims[-1].max())


if __name__ == "__main__":
    main()
