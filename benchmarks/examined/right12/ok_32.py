import cupy as cp
import cupyx
import numpy as np


class ChunkedReducer:
    """Streams a large host array through two pinned buffers and reduces it per column."""

    def __init__(self, rows, columns, dtype=np.float32):
        self.rows = rows
        self.columns = columns
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.work = cp.cuda.Stream(non_blocking=True)
        self.host = [cupyx.empty_pinned((rows, columns), dtype=dtype) for _ in range(2)]
        with self.work:
            self.device = [cp.empty((rows, columns), dtype=dtype) for _ in range(2)]
            self.total = cp.zeros(columns, dtype=cp.float64)
            self.square = cp.zeros(columns, dtype=cp.float64)
        self.copied = [None, None]
        self.consumed = [self.work.record(), self.work.record()]

    def _stage(self, slot, chunk):
        if self.copied[slot] is not None:
            self.copied[slot].synchronize()
        count = len(chunk)
        self.host[slot][:count] = chunk
        self.copy.wait_event(self.consumed[slot])
        self.device[slot][:count].set(self.host[slot][:count], stream=self.copy)
        self.copied[slot] = self.copy.record()
        return count

    def _consume(self, slot, count):
        self.work.wait_event(self.copied[slot])
        with self.work:
            block = self.device[slot][:count].astype(cp.float64)
            self.total += block.sum(axis=0)
            self.square += cp.square(block).sum(axis=0)
        self.consumed[slot] = self.work.record()

    def run(self, data):
        with self.work:
            self.total.fill(0)
            self.square.fill(0)
        try:
            for index, start in enumerate(range(0, len(data), self.rows)):
                slot = index % 2
                count = self._stage(slot, data[start:start + self.rows])
                self._consume(slot, count)
        finally:
            self.copy.synchronize()
        size = max(len(data), 1)
        with self.work:
            mean = self.total / size
            deviation = cp.sqrt(cp.maximum(self.square / size - mean * mean, 0))
            packed = cp.stack([mean, deviation])
            result = packed.get(stream=self.work)
        self.work.synchronize()
        return result


def main():
    rng = np.random.default_rng(0)
    reducer = ChunkedReducer(1 << 14, 64)
    for rows in (100_000, 5, 40_000, 0):
        data = rng.standard_normal((rows, 64)).astype(np.float32) * 3 + 1
        mean, deviation = reducer.run(data)
        if rows:
            print(rows, np.abs(mean - data.mean(axis=0)).max(), np.abs(deviation - data.std(axis=0)).max())
        else:
            print(rows, mean.max(), deviation.max())


if __name__ == "__main__":
    main()
