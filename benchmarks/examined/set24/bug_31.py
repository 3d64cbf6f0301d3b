"""Uploads raw pages of a columnar file and counts the row starts on the GPU."""
import cupy as cp
import cupyx
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

_ROWS = cp.RawKernel(r"""
extern "C" __global__
void count_rows(const unsigned char* page, unsigned long long* rows, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n && page[i] == '\n') atomicAdd(rows, 1ULL);
}
""", "count_rows")


class PageLoader:
    """Copies pages to the device on a dedicated stream."""

    def __init__(self, page_bytes):
        self.cupy_stream = cp.cuda.Stream(non_blocking=True)
        self.stream = Stream(obj=self.cupy_stream)
        self.page_bytes = page_bytes

    def load(self, page):
        return rmm.DeviceBuffer.to_device(memoryview(page), stream=self.stream)


class RowCounter:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.rows = cp.zeros(1, dtype=cp.uint64)

    def add(self, buf):
        n = buf.size
        with self.stream:
            view = cp.asarray(buf)
            grid = ((n + 255) // 256,)
            _ROWS(grid, (256,), (view, self.rows, np.int64(n)))

    def total(self):
        with self.stream:
            out = self.rows.get(stream=self.stream)
        self.stream.synchronize()
        return int(out[0])


def count_file(path, page_bytes=16 << 20):
    loader = PageLoader(page_bytes)
    counter = RowCounter()
    keep = []
    with open(path, "rb") as f:
        while True:
            page = cupyx.empty_pinned(page_bytes, dtype=np.uint8)
            n = f.readinto(page)
            if not n:
                break
            buf = loader.load(page[:n])
            counter.add(buf)
            keep.append((page, buf))
    return counter.total()


if __name__ == "__main__":
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    print(count_file("lineitem.tbl"))
