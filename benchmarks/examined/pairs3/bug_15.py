"""Out-of-core column statistics: RMM staging buffers, reduction on its own stream."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream as RmmStream


class Staged:
    """Temporary device column on the reader's stream."""

    def __init__(self, count, reader, reducer):
        self.reader, self.reducer = reader, reducer
        self._buf = rmm.DeviceBuffer(size=count * 4, stream=RmmStream(reader))
        mem = cp.cuda.UnownedMemory(self._buf.ptr, self._buf.size, self._buf)
        self.values = cp.ndarray(count, cp.float32, cp.cuda.MemoryPointer(mem, 0))

    def __enter__(self):
        return self

    def publish(self):
        ready = self.reader.record()
        self.reducer.wait_event(ready)
        return self.values

    def __exit__(self, *exc):
        self.values = None
        self._buf = None


class ColumnStats:
    def __init__(self):
        self.reader = cp.cuda.Stream(non_blocking=True)
        self.reducer = cp.cuda.Stream(non_blocking=True)
        with self.reducer:
            self.sums = cp.zeros(2, cp.float64)
        self.count = 0

    def consume(self, column):
        with Staged(column.size, self.reader, self.reducer) as staged:
            with self.reader:
                staged.values[...] = cp.asarray(column)
            with self.reducer:
                self.sums[0] += staged.publish().sum(dtype=cp.float64)
                self.sums[1] += cp.square(staged.values).sum(dtype=cp.float64)
        self.count += column.size

    def summary(self):
        with self.reducer:
            s, ss = self.sums.get()
        mean = s / self.count
        return mean, np.sqrt(ss / self.count - mean ** 2)


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    stats = ColumnStats()
    table = np.load("columns.npy", mmap_mode="r")
    for j in range(table.shape[0]):
        stats.consume(np.ascontiguousarray(table[j], dtype=np.float32))
    print(stats.summary())


if __name__ == "__main__":
    main()
