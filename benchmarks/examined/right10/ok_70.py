"""RMM buffers with CuPy views: every buffer is made, filled, used and released on one stream."""
import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator
from rmm.pylibrmm.stream import Stream


class Shard:
    def __init__(self, rows: int):
        self.cp_stream = cp.cuda.Stream(non_blocking=True)
        self.stream = Stream(self.cp_stream)
        self.rows = rows
        self.keys: rmm.DeviceBuffer | None = None

    def view(self, buf: rmm.DeviceBuffer, dtype) -> cp.ndarray:
        mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
        return cp.ndarray(buf.size // np.dtype(dtype).itemsize, dtype, memptr=cp.cuda.MemoryPointer(mem, 0))

    def load(self, keys: np.ndarray):
        raw = keys.view(np.uint8)
        self.keys = rmm.DeviceBuffer(size=raw.nbytes, stream=self.stream)
        self.keys.copy_from_host(raw, stream=self.stream)
        self.cp_stream.synchronize()

    def counts(self, bins: int) -> np.ndarray:
        with self.cp_stream:
            k = self.view(self.keys, np.int64) % bins
            hist = cp.zeros(bins, cp.int64)
            cp.add.at(hist, k, 1)
            host = cp.asnumpy(hist, stream=self.cp_stream)
            self.cp_stream.synchronize()
        return host

    def drop(self):
        self.keys = None


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 28)
    cp.cuda.set_allocator(rmm_cupy_allocator)
    rng = np.random.default_rng(0)
    shards = [Shard(1 << 20) for _ in range(3)]
    total = np.zeros(64, np.int64)
    for round_ in range(4):
        for s in shards:
            s.load(rng.integers(0, 1 << 40, s.rows))
        for s in shards:
            total += s.counts(64)
            s.drop()
    print(total.tolist()[:8])


if __name__ == "__main__":
    main()
