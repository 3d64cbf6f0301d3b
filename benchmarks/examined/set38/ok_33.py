"""Nearest references with pylibraft: submit a few tiles, then collect them."""
import cupy as cp
import numpy as np
from pylibraft.common import DeviceResources
from pylibraft.distance import pairwise_distance


class TileJob:
    def __init__(self, lo, rows, dist):
        self.lo = lo
        self.rows = rows
        self.dist = dist


class TileQueue:
    """All work of the queue, inputs included, goes to the handle's stream."""

    def __init__(self, refs, depth):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.handle = DeviceResources(stream=self.stream.ptr)
        self.depth = depth
        self.jobs = []
        with self.stream:
            self.refs = cp.asarray(refs)

    def submit(self, lo, rows):
        with self.stream:
            x = cp.asarray(rows)
            x /= cp.linalg.norm(x, axis=1, keepdims=True)
            dist = cp.empty((x.shape[0], self.refs.shape[0]), dtype=cp.float32)
            pairwise_distance(x, self.refs, out=dist, metric="sqeuclidean", handle=self.handle)
        self.jobs.append(TileJob(lo, x, dist))
        return len(self.jobs) >= self.depth

    def drain(self):
        self.handle.sync()
        done, self.jobs = self.jobs, []
        return done


class NearestReference:
    def __init__(self, refs, tile=4096, depth=4):
        refs = refs / np.linalg.norm(refs, axis=1, keepdims=True)
        self.queue = TileQueue(refs.astype(np.float32), depth)
        self.tile = tile

    def _collect(self, labels, best):
        for job in self.queue.drain():
            hi = job.lo + job.dist.shape[0]
            labels[job.lo:hi] = cp.asnumpy(job.dist.argmin(axis=1))
            best[job.lo:hi] = cp.asnumpy(job.dist.min(axis=1))

    def query(self, data):
        labels = np.empty(len(data), dtype=np.int64)
        best = np.empty(len(data), dtype=np.float32)
        for lo in range(0, len(data), self.tile):
            if self.queue.submit(lo, data[lo:lo + self.tile]):
                self._collect(labels, best)
        self._collect(labels, best)
        return labels, best


def main():
    rng = np.random.default_rng(0)
    refs = rng.standard_normal((1024, 128)).astype(np.float32)
    which = rng.integers(0, 1024, 100_000)
    data = refs[which] + 0.1 * rng.standard_normal((100_000, 128)).astype(np.float32)
    labels, best = NearestReference(refs).query(data)
    print("accuracy", float((labels == which).mean()), "mean", float(best.mean()))


if __name__ == "__main__":
    main()
