"""Monte-Carlo option pricing with PyCUDA: chunks on streams, sums fetched with plain copies."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_SOURCE = r"""
__device__ unsigned int next(unsigned int *s) {
    *s ^= *s << 13; *s ^= *s >> 17; *s ^= *s << 5;
    return *s;
}
__global__ void paths(const float *params, float *payoff, int n, int steps, unsigned int seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned int s = seed * 2654435761u + i * 40503u + 1u;
    float spot = params[0], strike = params[1], drift = params[2], vol = params[3];
    for (int k = 0; k < steps; ++k) {
        float u = (next(&s) + 1.0f) / 4294967297.0f;
        float v = (next(&s) + 1.0f) / 4294967297.0f;
        float z = sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
        spot *= expf(drift + vol * z);
    }
    payoff[i] = fmaxf(spot - strike, 0.0f);
}
__global__ void reduce(const float *payoff, float *partial, int n) {
    __shared__ float acc[256];
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += payoff[i];
    acc[threadIdx.x] = sum;
    __syncthreads();
    for (int w = 128; w > 0; w >>= 1) {
        if (threadIdx.x < w) acc[threadIdx.x] += acc[threadIdx.x + w];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = acc[0];
}
"""


class Chunk:
    def __init__(self, paths, blocks):
        self.stream = drv.Stream()
        self.paths = paths
        self.blocks = blocks
        self.params = drv.mem_alloc(4 * 4)
        self.payoff = drv.mem_alloc(paths * 4)
        self.partial = drv.mem_alloc(blocks * 4)
        self.host = np.empty(blocks, np.float32)


class Pricer:
    """Each chunk prices with its own seed; parameters go up and results come down synchronously."""

    def __init__(self, paths=1 << 20, chunks=4, steps=252, blocks=128):
        module = SourceModule(_SOURCE)
        self._paths = module.get_function("paths")
        self._reduce = module.get_function("reduce")
        self.steps = steps
        self.chunks = [Chunk(paths // chunks, blocks) for _ in range(chunks)]
        self.round = 0

    def _start(self, params):
        for index, chunk in enumerate(self.chunks):
            drv.memcpy_htod(chunk.params, params)
            grid = ((chunk.paths + 255) // 256, 1)
            seed = np.uint32(self.round * len(self.chunks) + index + 1)
            self._paths(
                chunk.params, chunk.payoff, np.int32(chunk.paths), np.int32(self.steps), seed,
                block=(256, 1, 1), grid=grid, stream=chunk.stream,
            )
            self._reduce(
                chunk.payoff, chunk.partial, np.int32(chunk.paths),
                block=(256, 1, 1), grid=(chunk.blocks, 1), stream=chunk.stream,
            )

    def price(self, spot, strike, rate, vol, years=1.0):
        dt = years / self.steps
        params = np.array(
            [spot, strike, (rate - 0.5 * vol * vol) * dt, vol * dt**0.5], np.float32
        )
        self._start(params)
        self.round += 1
        total, count = 0.0, 0
        for chunk in self.chunks:
            drv.memcpy_dtoh(chunk.host, chunk.partial)
            total += float(chunk.host.sum(dtype=np.float64))
            count += chunk.paths
        return total / count * np.exp(-rate * years)


def main():
    pricer = Pricer()
    for strike in (90.0, 100.0, 110.0):
        print(strike, pricer.price(100.0, strike, 0.03, 0.2))


if __name__ == "__main__":
    main()
