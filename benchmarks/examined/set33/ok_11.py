"""Detector read-out: reduced frames are handed to the host in a callback of the stream itself."""
import queue

import cupy as cp
import cupyx
import numpy as np

_reduce = cp.ReductionKernel(
    "uint16 x", "float32 y", "(float)x", "a + b", "y = a", "0", "line_sum"
)


class Readout:
    """Upload, reduction and download of frames, `depth` at a time."""

    def __init__(self, rows, cols, depth=4):
        self.rows, self.cols = rows, cols
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.raw = [cupyx.empty_pinned((rows, cols), dtype=np.uint16) for _ in range(depth)]
        self.sums = [cupyx.empty_pinned(rows, dtype=np.float32) for _ in range(depth)]
        with self.stream:
            self.d_raw = cp.empty((rows, cols), dtype=cp.uint16)
            self.d_sum = cp.empty(rows, dtype=cp.float32)
        self.free = queue.Queue()
        for i in range(depth):
            self.free.put(i)
        self.results = queue.Queue()

    def _publish(self, arg):
        index, slot = arg
        self.results.put((index, self.sums[slot].copy()))
        self.free.put(slot)

    def submit(self, index, frame):
        slot = self.free.get()
        self.raw[slot][...] = frame
        with self.stream:
            self.d_raw.set(self.raw[slot], stream=self.stream)
            _reduce(self.d_raw, self.d_sum, axis=1)
            self.d_sum.get(stream=self.stream, out=self.sums[slot], blocking=False)
            self.stream.launch_host_func(self._publish, (index, slot))

    def collect(self, count):
        found = [self.results.get() for _ in range(count)]
        return np.stack([sums for _, sums in sorted(found, key=lambda item: item[0])])


def run(frames, rows=512, cols=1024):
    readout = Readout(rows, cols)
    for index, frame in enumerate(frames):
        readout.submit(index, frame)
    return readout.collect(len(frames))


def main(count=64, rows=512, cols=1024):
    rng = np.random.default_rng(5)
    frames = [rng.integers(0, 4096, size=(rows, cols), dtype=np.uint16) for _ in range(count)]
    sums = run(frames, rows, cols)
    expected = np.stack([f.sum(axis=1, dtype=np.float64) for f in frames])
    return float(np.abs(sums - expected).max())


if __name__ == "__main__":
    print(main())
