"""Column chunks staged through an rmm pool and summed by a query stream."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

CHUNK = 1 << 24


class ChunkLoader:
    def __init__(self):
        self.cupy_stream = cp.cuda.Stream(non_blocking=True)
        self.stream = Stream(self.cupy_stream)
        self.ready = cp.cuda.Event(disable_timing=True)

    def decode(self, seed):
        buf = rmm.DeviceBuffer(size=CHUNK * 4, stream=self.stream)
        view = as_array(buf)
        with self.cupy_stream:
            view[...] = np.float32(seed)
            view += cp.arange(CHUNK, dtype=cp.float32)
            self.ready.record(self.cupy_stream)
        return buf


def as_array(buf):
    mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
    return cp.ndarray((buf.size // 4,), cp.float32, cp.cuda.MemoryPointer(mem, 0))


class Query:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.total = cp.zeros((), dtype=cp.float64)

    def aggregate(self, loader, buf):
        self.stream.wait_event(loader.ready)
        with self.stream:
            self.total += cp.sqrt(as_array(buf)).sum(dtype=cp.float64)

    def value(self):
        self.stream.synchronize()
        return float(self.total.get())


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    loader, query = ChunkLoader(), Query()
    for seed in range(40):
        buf = loader.decode(seed)
        query.aggregate(loader, buf)
        del buf
    print(query.value())


if __name__ == "__main__":
    main()
