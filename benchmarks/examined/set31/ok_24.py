"""Column chunks staged through an rmm pool and summed by a query stream."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

CHUNK = 1 << 24


def as_array(buf):
    mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
    return cp.ndarray((buf.size // 4,), cp.float32, cp.cuda.MemoryPointer(mem, 0))


class Pipeline:
    def __init__(self):
        self.load = cp.cuda.Stream(non_blocking=True)
        self.query = cp.cuda.Stream(non_blocking=True)
        self.rmm_load = Stream(self.load)
        with self.query:
            self.total = cp.zeros((), dtype=cp.float64)

    def _decode(self, seed):
        buf = rmm.DeviceBuffer(size=CHUNK * 4, stream=self.rmm_load)
        view = as_array(buf)
        with self.load:
            view[...] = np.float32(seed)
            view += cp.arange(CHUNK, dtype=cp.float32)
        return buf

    def process(self, seed):
        buf = self._decode(seed)
        self.query.wait_event(self.load.record())
        with self.query:
            self.total += cp.sqrt(as_array(buf)).sum(dtype=cp.float64)
        self.load.wait_event(self.query.record())

    def value(self):
        self.query.synchronize()
        return float(self.total.get())


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    pipe = Pipeline()
    for seed in range(40):
        pipe.process(seed)
    print(pipe.value())


if __name__ == "__main__":
    main()
