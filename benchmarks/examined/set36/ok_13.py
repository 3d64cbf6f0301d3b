"""Monte-Carlo pricing with PyCUDA: several streams, results fetched by a plain copy."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_SRC = """
__device__ float uniform(unsigned int *s)
{
    *s ^= *s << 13; *s ^= *s >> 17; *s ^= *s << 5;
    return (*s) * 2.3283064e-10f + 1e-12f;
}

__global__ void paths(float *sum, unsigned int seed, int steps, float drift, float vol,
                      float strike)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int s = seed ^ (2654435761u * (i + 1));
    float logs = 0.f;
    for (int t = 0; t < steps; ++t) {
        float u = uniform(&s), v = uniform(&s);
        logs += drift + vol * sqrtf(-2.f * logf(u)) * cospif(2.f * v);
    }
    sum[i] += fmaxf(expf(logs) - strike, 0.f);
}
"""


class StrikeJob:
    def __init__(self, strike, count):
        self.strike = np.float32(strike)
        self.stream = drv.Stream()
        self.sums = drv.mem_alloc(count * 4)
        self.host = drv.pagelocked_empty(count, np.float32)
        drv.memset_d32(self.sums, 0, count)


class Pricer:
    def __init__(self, strikes, count=1 << 16, steps=128, rate=0.02, sigma=0.3):
        self.kernel = SourceModule(_SRC).get_function("paths")
        self.count, self.steps = count, steps
        dt = 1.0 / steps
        self.drift = np.float32((rate - 0.5 * sigma * sigma) * dt)
        self.vol = np.float32(sigma * np.sqrt(dt))
        self.jobs = [StrikeJob(k, count) for k in strikes]
        self.rounds = 0

    def advance(self, rounds):
        for r in range(rounds):
            for job in self.jobs:
                seed = np.uint32((self.rounds + r + 1) * 7919)
                self.kernel(job.sums, seed, np.int32(self.steps), self.drift, self.vol,
                            job.strike, block=(256, 1, 1), grid=(self.count // 256, 1),
                            stream=job.stream)
        self.rounds += rounds

    def prices(self):
        result = []
        for job in self.jobs:
            drv.memcpy_dtoh(job.host, job.sums)
            result.append(float(job.host.mean()) / max(self.rounds, 1))
        return result

    def restart(self):
        self.rounds = 0
        for job in self.jobs:
            drv.memset_d32(job.sums, 0, self.count)


if __name__ == "__main__":
    pricer = Pricer([0.8, 0.9, 1.0, 1.1, 1.2])
    pricer.advance(20)
    print(pricer.prices())
    pricer.restart()
    pricer.advance(5)
    print(pricer.prices())
