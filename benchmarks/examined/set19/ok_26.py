"""Column buffers handed from a decode stream to a query stream (RMM + CuPy)."""
from collections import deque

import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator
from rmm.pylibrmm.stream import Stream


class Column:
    """A device buffer, the event of its last write and the events of its readers."""

    def __init__(self, buffer, dtype, written):
        self.buffer = buffer
        self.dtype = cp.dtype(dtype)
        self.written = written
        self.readers = []

    def view(self):
        nbytes = self.buffer.size
        mem = cp.cuda.UnownedMemory(self.buffer.ptr, nbytes, self.buffer)
        return cp.ndarray(nbytes // self.dtype.itemsize, self.dtype,
                          cp.cuda.MemoryPointer(mem, 0))


class ColumnStore:
    """Buffers are allocated, written and released in the order of one stream."""

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rmm_stream = Stream(self.stream)

    def decode(self, codes, scale):
        buffer = rmm.DeviceBuffer(size=codes.size * 4, stream=self.rmm_stream)
        column = Column(buffer, np.float32, None)
        with self.stream:
            out = column.view()
            cp.multiply(codes.astype(cp.float32), np.float32(scale), out=out)
        column.written = self.stream.record()
        return column

    def drop(self, column):
        for event in column.readers:
            self.stream.wait_event(event)
        column.readers = []
        column.buffer = None


class QueryEngine:
    def __init__(self, bins):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.histogram = cp.zeros(bins, cp.int64)
        self.bins = bins

    def accumulate(self, column):
        self.stream.wait_event(column.written)
        with self.stream:
            values = column.view()
            index = cp.clip((values * self.bins).astype(cp.int64), 0, self.bins - 1)
            cp.add.at(self.histogram, index, 1)
            del values
        column.readers.append(self.stream.record())

    def result(self):
        with self.stream:
            return self.histogram.get()


def main():
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=2**28))
    cp.cuda.set_allocator(rmm_cupy_allocator)
    store, engine = ColumnStore(), QueryEngine(128)
    rng = np.random.default_rng(5)
    live = deque()
    for _ in range(40):
        with store.stream:
            codes = cp.asarray(rng.integers(0, 256, 1 << 20, dtype=np.int32))
        column = store.decode(codes, 1.0 / 256.0)
        engine.accumulate(column)
        live.append(column)
        if len(live) > 2:
            store.drop(live.popleft())
    while live:
        store.drop(live.popleft())
    print(engine.result().sum())


if __name__ == "__main__":
    main()
