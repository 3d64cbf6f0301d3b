"""Join-like two-stage operator with RMM buffers handed from scan to probe stream."""
import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator
from rmm.pylibrmm.stream import Stream

hash_kernel = cp.RawKernel(r"""
extern "C" __global__ void hash_rows(const long long* k, unsigned int* h, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) { unsigned long long x = k[i] * 0x9E3779B97F4A7C15ULL; h[i] = x >> 40; }
}
""", "hash_rows")

probe_kernel = cp.RawKernel(r"""
extern "C" __global__
void probe(const unsigned int* h, const unsigned char* bloom, int n, int* hits) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n && bloom[h[i] & 0xffff]) atomicAdd(hits, 1);
}
""", "probe")


class Lane:
    def __init__(self):
        self.cp = cp.cuda.Stream(non_blocking=True)
        self.rmm = Stream(self.cp)
        self.mark = cp.cuda.Event(disable_timing=True)

    def after(self, other):
        other.mark.record(other.cp)
        self.cp.wait_event(other.mark)


class ProbePipeline:
    def __init__(self, rows):
        rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
        cp.cuda.set_allocator(rmm_cupy_allocator)
        self.rows = rows
        self.scan, self.probe = Lane(), Lane()
        with self.probe.cp:
            self.bloom = (cp.arange(1 << 16) % 3 == 0).astype(cp.uint8)
            self.hits = cp.zeros(1, dtype=cp.int32)
        with self.scan.cp:
            self.keys = cp.arange(rows, dtype=cp.int64)

    def _grid(self):
        return ((self.rows + 255) // 256,)

    def _hash(self, batch):
        buf = rmm.DeviceBuffer(size=self.rows * 4, stream=self.scan.rmm)
        with self.scan.cp:
            self.keys += np.int64(batch)
            hash_kernel(self._grid(), (256,), (self.keys, np.uintp(buf.ptr), np.int32(self.rows)))
        return buf

    def _probe(self, buf):
        self.probe.after(self.scan)
        with self.probe.cp:
            probe_kernel(
                self._grid(), (256,),
                (np.uintp(buf.ptr), self.bloom, np.int32(self.rows), self.hits),
            )

    def process(self, batch):
        buf = self._hash(batch)
        self._probe(buf)
        self.scan.after(self.probe)
        del buf

    def total(self):
        self.probe.rmm.synchronize()
        with self.probe.cp:
            return int(self.hits[0])


def main():
    pipe = ProbePipeline(8_000_000)
    for batch in range(50):
        pipe.process(batch)
    print(pipe.total())


if __name__ == "__main__":
    main()
