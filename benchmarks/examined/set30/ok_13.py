"""Chained filters on PyCUDA: temporaries come from a pool that only ever serves one stream."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

SRC = r"""
__global__ void smooth(float *out, const float *a, int n, int radius) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float acc = 0.0f;
    for (int k = -radius; k <= radius; ++k) acc += a[min(max(i + k, 0), n - 1)];
    out[i] = acc / (2 * radius + 1);
}
__global__ void residual(float *out, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] - b[i];
}
"""


class Lane:
    """A stream with its own device pool and its own kernels' temporaries."""

    def __init__(self, module, n):
        self.stream = drv.Stream()
        self.pool = DeviceMemoryPool()
        self.smooth = module.get_function("smooth")
        self.residual = module.get_function("residual")
        self.n, self.nbytes = np.int32(n), 4 * n
        self.config = {"block": (256, 1, 1), "grid": ((n + 255) // 256, 1)}

    def band(self, src, radius):
        low = self.pool.allocate(self.nbytes)
        out = self.pool.allocate(self.nbytes)
        self.smooth(low, src, self.n, np.int32(radius), stream=self.stream, **self.config)
        self.residual(out, src, low, self.n, stream=self.stream, **self.config)
        return out, low


class Pyramid:
    def __init__(self, n, levels, lanes=3):
        module = SourceModule(SRC)
        self.lanes = [Lane(module, n) for _ in range(lanes)]
        self.host_pool = PageLockedMemoryPool()
        self.n, self.levels = n, levels

    def enqueue(self, lane, row):
        staged = self.host_pool.allocate(self.n, np.dtype(np.float32))
        staged[:] = row
        current = lane.pool.allocate(lane.nbytes)
        drv.memcpy_htod_async(current, staged, lane.stream)
        outputs = []
        for level in range(self.levels):
            detail, current = lane.band(current, 2 << level)
            host = self.host_pool.allocate(self.n, np.dtype(np.float32))
            drv.memcpy_dtoh_async(host, detail, lane.stream)
            outputs.append(host)
        return staged, outputs

    def __call__(self, rows):
        pending = []
        for index, row in enumerate(rows):
            pending.append(self.enqueue(self.lanes[index % len(self.lanes)], row))
        for lane in self.lanes:
            lane.stream.synchronize()
        return np.stack([[np.array(host) for host in outputs] for _, outputs in pending])


def main(channels=24, n=1 << 18, levels=5):
    data = np.random.default_rng(0).normal(size=(channels, n)).astype(np.float32)
    return Pyramid(n, levels)(data)


if __name__ == "__main__":
    print(main().std(axis=2).mean(axis=0))
