"""Moving variance of many channels with pooled PyCUDA scratch memory."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool

N = 1 << 22

mod = SourceModule("""
__global__ void square(const float *x, float *sq, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sq[i] = x[i] * x[i];
}
__global__ void variance(const float *x, const float *sq, float *out, int n, int w) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + w > n) return;
    float m = 0.f, q = 0.f;
    for (int k = 0; k < w; ++k) { m += x[i + k]; q += sq[i + k]; }
    m /= w;
    out[i] = q / w - m * m;
}
""")
square, variance = mod.get_function("square"), mod.get_function("variance")
LAUNCH = dict(block=(256, 1, 1), grid=(N // 256, 1))


class Channel:
    def __init__(self, samples):
        self.stream = drv.Stream()
        self.x = drv.mem_alloc(4 * N)
        self.out = drv.mem_alloc(4 * N)
        drv.memcpy_htod(self.x, samples)
        drv.memset_d8(self.out, 0, 4 * N)

    def run(self, pool, window):
        scratch = pool.allocate(4 * N)
        square(self.x, scratch, np.int32(N), stream=self.stream, **LAUNCH)
        variance(self.x, scratch, self.out, np.int32(N), np.int32(window), stream=self.stream, **LAUNCH)

    def peak(self):
        host = np.empty(N, np.float32)
        self.stream.synchronize()
        drv.memcpy_dtoh(host, self.out)
        return float(host.max())


def main(channels=6, window=200):
    rng = np.random.default_rng(42)
    pool = DeviceMemoryPool()
    bank = [Channel(rng.standard_normal(N).astype(np.float32) * (k + 1)) for k in range(channels)]
    for channel in bank:
        channel.run(pool, window)
    print([channel.peak() for channel in bank])


if __name__ == "__main__":
    main()
