"""Monte Carlo pricing with PyCUDA: paths live in pooled device memory."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool

MOD = SourceModule("""
#include <curand_kernel.h>
extern "C" {
__global__ void paths(float *s, int n, float sigma, unsigned long long seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    curandStatePhilox4_32_10_t st;
    curand_init(seed, i, 0, &st);
    float v = 1.f;
    for (int k = 0; k < 252; ++k) v *= expf(sigma * 0.063f * curand_normal(&st));
    s[i] = v;
}
__global__ void payoff(const float *s, double *sum, int n, float strike) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(sum, (double)fmaxf(s[i] - strike, 0.f));
}
}
""", no_extern_c=True)


class Pricer:
    def __init__(self, n=1 << 20, lanes=4):
        self.n = np.int32(n)
        self.pool = DeviceMemoryPool()
        self.lanes = [drv.Stream() for _ in range(lanes)]
        self.paths = MOD.get_function("paths")
        self.payoff = MOD.get_function("payoff")
        self.grid = ((n + 255) // 256, 1)

    def submit(self, i, sigma, strike, slot):
        stream = self.lanes[i % len(self.lanes)]
        spot = self.pool.allocate(4 * int(self.n))
        self.paths(spot, self.n, np.float32(sigma), np.uint64(i), block=(256, 1, 1),
                   grid=self.grid, stream=stream)
        self.payoff(spot, slot, self.n, np.float32(strike), block=(256, 1, 1),
                    grid=self.grid, stream=stream)

    def price(self, book):
        sums = drv.to_device(np.zeros(len(book)))
        for i, (sigma, strike) in enumerate(book):
            self.submit(i, sigma, strike, np.intp(int(sums) + 8 * i))
        for stream in self.lanes:
            stream.synchronize()
        return drv.from_device(sums, (len(book),), np.float64) / int(self.n)


if __name__ == "__main__":
    book = [(s, k) for s in np.linspace(0.1, 0.6, 20) for k in np.linspace(0.8, 1.2, 9)]
    print(Pricer().price(book))
