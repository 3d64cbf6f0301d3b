"""Histogram of streamed chunks, device blocks from a PyCUDA pool."""
from collections import deque

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

SRC = r"""
__global__ void hist(const unsigned int *x, unsigned int *bins, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[x[i] & 1023u], 1u);
}
"""


class StreamingHistogram:
    def __init__(self, depth: int = 3):
        self.depth = depth
        self.dev_pool = DeviceMemoryPool()
        self.host_pool = PageLockedMemoryPool()
        self.copy = drv.Stream()
        self.work = drv.Stream()
        self.kernel = SourceModule(SRC).get_function("hist")
        self.bins = gpuarray.zeros(1024, np.uint32)
        drv.Context.synchronize()
        self.in_flight = deque()

    def _retire(self, keep: int):
        while len(self.in_flight) > keep:
            finished, page, dev = self.in_flight.popleft()
            finished.synchronize()
            dev.gpudata.free()
            del page

    def feed(self, chunk: np.ndarray):
        self._retire(self.depth - 1)
        page = self.host_pool.allocate(chunk.shape, chunk.dtype)
        page[:] = chunk
        dev = gpuarray.GPUArray(chunk.shape, chunk.dtype, allocator=self.dev_pool.allocate)
        drv.memcpy_htod_async(dev.gpudata, page, self.copy)
        up = drv.Event()
        up.record(self.copy)
        self.work.wait_for_event(up)
        n = chunk.size
        self.kernel(
            dev.gpudata,
            self.bins.gpudata,
            np.int32(n),
            block=(256, 1, 1),
            grid=((n + 255) // 256, 1),
            stream=self.work,
        )
        finished = drv.Event()
        finished.record(self.work)
        self.in_flight.append((finished, page, dev))

    def result(self) -> np.ndarray:
        self._retire(0)
        return self.bins.get()


def main():
    rng = np.random.default_rng(3)
    h = StreamingHistogram()
    total = 0
    for _ in range(20):
        chunk = rng.integers(0, 1 << 31, size=1 << 20, dtype=np.uint32)
        total += chunk.size
        h.feed(chunk)
    assert int(h.result().sum()) == total


if __name__ == "__main__":
    main()
