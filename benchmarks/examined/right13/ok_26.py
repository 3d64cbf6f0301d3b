"""Chunked reduction of a large host array through two pinned stages."""
import cupy as cp
import numpy as np


def pinned(shape, dtype):
    count = int(np.prod(shape))
    memory = cp.cuda.alloc_pinned_memory(count * np.dtype(dtype).itemsize)
    return np.frombuffer(memory, dtype, count).reshape(shape)


class Stage:
    def __init__(self, rows, cols, copy):
        self.host = pinned((rows, cols), np.float32)
        with copy:
            self.device = cp.empty((rows, cols), cp.float32)
        self.sent = None
        self.used = None


class ColumnStats:
    def __init__(self, cols, rows_per_chunk=65536):
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.stages = [Stage(rows_per_chunk, cols, self.copy) for _ in range(2)]
        self.rows = rows_per_chunk
        self.count = 0
        with self.compute:
            self.total = cp.zeros(cols, cp.float64)
            self.square = cp.zeros(cols, cp.float64)

    def _push(self, stage, chunk):
        n = len(chunk)
        if stage.sent is not None:
            stage.sent.synchronize()
        np.copyto(stage.host[:n], chunk)
        if stage.used is not None:
            self.copy.wait_event(stage.used)
        stage.device[:n].set(stage.host[:n], stream=self.copy)
        stage.sent = self.copy.record()
        self.compute.wait_event(stage.sent)
        with self.compute:
            x = stage.device[:n].astype(cp.float64)
            self.total += x.sum(axis=0)
            self.square += cp.square(x, out=x).sum(axis=0)
        stage.used = self.compute.record()
        self.count += n

    def update(self, array):
        array = np.atleast_2d(array)
        for k, start in enumerate(range(0, len(array), self.rows)):
            self._push(self.stages[k % 2], array[start:start + self.rows])
        return self

    def result(self):
        if not self.count:
            raise ValueError("no rows yet")
        with self.compute:
            mean = self.total / self.count
            var = self.square / self.count - mean * mean
            return cp.asnumpy(mean), cp.asnumpy(cp.maximum(var, 0))

    def close(self):
        self.copy.synchronize()
        self.compute.synchronize()
        self.stages.clear()


def main():
    stats = ColumnStats(cols=32, rows_per_chunk=4096)
    try:
        rng = np.random.default_rng(0)
        for _ in range(5):
            stats.update(rng.standard_normal((30_000, 32), dtype=np.float32))
        mean, var = stats.result()
        print(mean[:3], var[:3])
    finally:
        stats.close()


if __name__ == "__main__":
    main()
