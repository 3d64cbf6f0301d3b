"""Batched line fits with a PyCUDA device memory pool."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

POINTS, LINES = 256, 4096

mod = SourceModule("""
__global__ void fit(const float *y, float *slope, int points) {
    __shared__ float s[256], q[256];
    int t = threadIdx.x;
    float x = t - 0.5f * (points - 1);
    s[t] = x * y[blockIdx.x * points + t];
    q[t] = x * x;
    __syncthreads();
    for (int k = 128; k; k >>= 1) {
        if (t < k) { s[t] += s[t + k]; q[t] += q[t + k]; }
        __syncthreads();
    }
    if (!t) slope[blockIdx.x] = s[0] / q[0];
}
""")


class LineFitter:
    def __init__(self):
        self.fit = mod.get_function("fit")
        self.device_pool = DeviceMemoryPool()
        self.host_pool = PageLockedMemoryPool()
        self.stream = drv.Stream()
        self.inflight = []

    def submit(self, lines):
        staged = self.host_pool.allocate(lines.shape, np.float32)
        staged[...] = lines
        slopes = self.host_pool.allocate((len(lines),), np.float32)
        d_lines = self.device_pool.allocate(staged.nbytes)
        d_slopes = self.device_pool.allocate(slopes.nbytes)
        drv.memcpy_htod_async(d_lines, staged, self.stream)
        self.fit(d_lines, d_slopes, np.int32(POINTS), block=(POINTS, 1, 1),
                 grid=(len(lines), 1), stream=self.stream)
        drv.memcpy_dtoh_async(slopes, d_slopes, self.stream)
        self.inflight.append((staged, slopes))

    def flush(self):
        self.stream.synchronize()
        out = [slopes.copy() for _, slopes in self.inflight]
        self.inflight.clear()
        return out


def main():
    rng = np.random.default_rng(41)
    fitter = LineFitter()
    for _ in range(5):
        for _ in range(4):
            fitter.submit(rng.random((LINES, POINTS), dtype=np.float32))
        print(np.concatenate(fitter.flush()).mean())


if __name__ == "__main__":
    main()
