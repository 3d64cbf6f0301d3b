"""Upload a group of host arrays and reduce each one on a second stream."""
import cupy as cp
import numpy as np


class Uploader:
    def __init__(self, limit_bytes=256 << 20):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.limit = limit_bytes
        self._held = []
        self._held_bytes = 0

    def put(self, array):
        if self._held_bytes + array.nbytes > self.limit:
            self.flush()
        mem = cp.cuda.alloc_pinned_memory(array.nbytes)
        staged = np.frombuffer(mem, array.dtype, array.size).reshape(array.shape)
        staged[...] = array
        with self.stream:
            dev = cp.empty(array.shape, array.dtype)
            dev.set(staged, stream=self.stream)
        self._held.append(staged)
        self._held_bytes += array.nbytes
        return dev, self.stream.record()

    def flush(self):
        self.stream.synchronize()
        self._held.clear()
        self._held_bytes = 0


class ColumnStats:
    def __init__(self, columns):
        self.math = cp.cuda.Stream(non_blocking=True)
        with self.math:
            self.total = cp.zeros(columns, cp.float64)
            self.square = cp.zeros(columns, cp.float64)

    def add(self, x, ready):
        self.math.wait_event(ready)
        with self.math:
            self.total += x.sum(axis=0, dtype=cp.float64)
            self.square += (x * x).sum(axis=0, dtype=cp.float64)

    def result(self, count):
        with self.math:
            mean = self.total / count
            var = self.square / count - mean * mean
            out = cp.stack([mean, var]).get(stream=self.math)
        self.math.synchronize()
        return out


def main(groups=3, per_group=5, rows=4096, columns=256):
    rng = np.random.default_rng(1)
    up = Uploader()
    stats = ColumnStats(columns)
    seen = 0
    for _ in range(groups):
        kept = []
        for _ in range(per_group):
            block = rng.standard_normal((rows, columns), dtype=np.float32)
            dev, ready = up.put(block)
            stats.add(dev, ready)
            kept.append(dev)
            seen += rows
        up.flush()
        stats.math.synchronize()
        kept.clear()
    mean, var = stats.result(seen)
    print("mean", float(np.abs(mean).max()), "var", float(var.mean()))


if __name__ == "__main__":
    main()
