"""Write encoded pages from device memory to a growing host sink."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule
from pycuda.tools import PageLockedMemoryPool

mod = SourceModule("""
__global__ void encode(const unsigned int *in, unsigned char *out, unsigned int key, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned int v = in[i] ^ key;
        #pragma unroll
        for (int r = 0; r < 16; ++r) v = v * 1664525u + 1013904223u;
        out[i] = (unsigned char)(v >> 24);
    }
}
""")
encode = mod.get_function("encode")


class HostSink:
    def __init__(self, pool, capacity):
        self.pool = pool
        self.data = pool.allocate((capacity,), np.uint8)
        self.size = 0

    def _grow(self, need):
        capacity = len(self.data)
        while capacity < need:
            capacity *= 2
        bigger = self.pool.allocate((capacity,), np.uint8)
        bigger[:self.size] = self.data[:self.size]
        self.data = bigger

    def device_write(self, dev_ptr, nbytes, stream):
        if self.size + nbytes > len(self.data):
            self._grow(self.size + nbytes)
        view = self.data[self.size:self.size + nbytes]
        drv.memcpy_dtoh_async(view, dev_ptr, stream)
        self.size += nbytes

    def bytes(self):
        return self.data[:self.size]


class PageWriter:
    def __init__(self, sink, page_elems, depth=3):
        self.sink = sink
        self.n = page_elems
        self.stream = drv.Stream()
        self.pages = [drv.mem_alloc(page_elems) for _ in range(depth)]
        self.count = 0

    def write(self, column, key):
        page = self.pages[self.count % len(self.pages)]
        encode(column, page, np.uint32(key), np.int32(self.n),
               block=(256, 1, 1), grid=(256, 1), stream=self.stream)
        self.sink.device_write(page, self.n, self.stream)
        self.count += 1

    def close(self):
        self.stream.synchronize()
        for p in self.pages:
            p.free()
        return self.count


class Table:
    def __init__(self, columns, rows, seed=0):
        rng = np.random.default_rng(seed)
        self.host = rng.integers(0, 1 << 31, size=(columns, rows), dtype=np.uint32)
        self.device = [drv.to_device(c) for c in self.host]

    def __iter__(self):
        return iter(self.device)


def main():
    rows = 1 << 22
    table = Table(12, rows)
    sink = HostSink(PageLockedMemoryPool(), 2 * rows)
    writer = PageWriter(sink, rows)
    for key, col in enumerate(table):
        writer.write(col, key)
    pages = writer.close()
    out = sink.bytes().reshape(pages, rows)
    print(pages, out.mean(axis=1))


if __name__ == "__main__":
    main()
