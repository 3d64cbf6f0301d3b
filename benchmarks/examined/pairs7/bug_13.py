"""Moves hash partitions into device buffers and counts their keys."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

count_odd = cp.RawKernel(r"""
extern "C" __global__ void count_odd(const long long* keys, int n, unsigned long long* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && (keys[i] & 1)) atomicAdd(out, 1ULL);
}
""", "count_odd")

ROWS = 1 << 20


class PartitionCounter:
    def __init__(self):
        rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 28)
        self.ingest = cp.cuda.Stream(non_blocking=True)
        self.query = cp.cuda.Stream(non_blocking=True)
        self.rmm_ingest = Stream(self.ingest)
        self.rmm_query = Stream(self.query)
        self.loaded = cp.cuda.Event(disable_timing=True)
        with self.query:
            self.counts = cp.zeros(1, cp.uint64)

    def _keys(self, buffer):
        mem = cp.cuda.UnownedMemory(buffer.ptr, buffer.size, None)
        return cp.ndarray(ROWS, cp.int64, memptr=cp.cuda.MemoryPointer(mem, 0))

    def consume(self, keys):
        buffer = rmm.DeviceBuffer.to_device(keys.view(np.uint8), stream=self.rmm_ingest)
        self.loaded.record(self.ingest)
        self.query.wait_event(self.loaded)
        with self.query:
            count_odd((ROWS // 256,), (256,), (self._keys(buffer), np.int32(ROWS), self.counts))

    def total(self):
        with self.query:
            return int(self.counts.get()[0])


def main():
    rng = np.random.default_rng(17)
    counter = PartitionCounter()
    for _ in range(64):
        counter.consume(rng.integers(0, 1 << 40, ROWS, dtype=np.int64))
    print(counter.total())


if __name__ == "__main__":
    main()
