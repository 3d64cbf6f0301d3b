"""Histogram-driven pruning in Numba; the host looks at counts between kernels."""
import numpy as np
from numba import cuda

BINS = 64


@cuda.jit
def histogram_kernel(values, alive, hist):
    i = cuda.grid(1)
    if i < values.size and alive[i]:
        b = int(values[i] * BINS)
        if b >= BINS:
            b = BINS - 1
        cuda.atomic.add(hist, b, 1)


@cuda.jit
def prune_kernel(values, alive, threshold, removed):
    i = cuda.grid(1)
    if i < values.size and alive[i] and values[i] < threshold:
        alive[i] = 0
        cuda.atomic.add(removed, 0, 1)


class DeviceCounter:
    """A small device array that is read back through the default stream."""

    def __init__(self, n):
        self.zeros = np.zeros(n, np.int64)
        self.data = cuda.to_device(self.zeros)
        self.host = cuda.pinned_array(n, np.int64)

    def reset(self, stream):
        self.data.copy_to_device(self.zeros, stream=stream)

    def read(self):
        self.data.copy_to_host(self.host)
        return self.host.copy()


class Pruner:
    def __init__(self, values):
        self.stream = cuda.stream()
        self.n = values.size
        self.values = cuda.to_device(values)
        self.alive = cuda.to_device(np.ones(self.n, np.uint8))
        self.hist = DeviceCounter(BINS)
        self.removed = DeviceCounter(1)
        self.grid = ((self.n + 127) // 128, 128)

    def count(self):
        self.hist.reset(self.stream)
        histogram_kernel[self.grid[0], self.grid[1], self.stream](
            self.values, self.alive, self.hist.data)
        return self.hist.read()

    def prune_to(self, target):
        hist = self.count()
        below = np.cumsum(hist)
        excess = int(below[-1]) - target
        if excess <= 0:
            return 0
        cut = int(np.searchsorted(below, excess)) / BINS
        self.removed.reset(self.stream)
        prune_kernel[self.grid[0], self.grid[1], self.stream](
            self.values, self.alive, np.float32(cut), self.removed.data)
        return int(self.removed.read()[0])


def main():
    rng = np.random.default_rng(5)
    pruner = Pruner(rng.random(1 << 18, dtype=np.float32))
    for target in (200_000, 100_000, 50_000):
        print(target, pruner.prune_to(target), pruner.count().sum())


if __name__ == "__main__":
    main()
