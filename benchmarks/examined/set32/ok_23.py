"""Random search over lens parameters; two lanes share one scoring kernel."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SRC = r"""
__device__ float distort(float r2, const float* p) {
    return 1.f + r2 * (p[0] + r2 * (p[1] + r2 * p[2]));
}

__global__ void score(const float4* obs, int n_obs, const float* params, float* cost, int first) {
    int c = first + blockIdx.x;
    const float* p = params + 3 * c;
    float acc = 0.f;
    for (int i = threadIdx.x; i < n_obs; i += blockDim.x) {
        float4 o = obs[i];
        float s = distort(o.x * o.x + o.y * o.y, p);
        float dx = o.x * s - o.z, dy = o.y * s - o.w;
        acc += dx * dx + dy * dy;
    }
    __shared__ float part[128];
    part[threadIdx.x] = acc;
    __syncthreads();
    for (int k = 64; k > 0; k >>= 1) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) cost[c] = part[0];
}
"""


class Lane:
    def __init__(self, kernel, first, count):
        self.kernel, self.first, self.count = kernel, first, count
        self.stream = drv.Stream()

    def launch(self, obs, n_obs, params, cost):
        self.kernel(
            obs,
            np.int32(n_obs),
            params,
            cost,
            np.int32(self.first),
            block=(128, 1, 1),
            grid=(self.count, 1),
            stream=self.stream,
        )


class LensSearch:
    def __init__(self, observations, population=4096, seed=0):
        observations = np.ascontiguousarray(observations, dtype=np.float32)
        self.n_obs = observations.shape[0]
        self.population = population
        self.obs = drv.to_device(observations)
        self.params = drv.mem_alloc(population * 12)
        self.cost = drv.mem_alloc(population * 4)
        self.host_cost = drv.pagelocked_empty(population, np.float32)
        self.host_params = drv.pagelocked_empty((population, 3), np.float32)
        kernel = SourceModule(SRC).get_function("score")
        half = population // 2
        self.lanes = [Lane(kernel, 0, half), Lane(kernel, half, population - half)]
        self.rng = np.random.default_rng(seed)

    def generation(self, mean, spread):
        self.host_params[...] = mean + spread * self.rng.standard_normal(self.host_params.shape)
        drv.memcpy_htod(self.params, self.host_params)
        for lane in self.lanes:
            lane.launch(self.obs, self.n_obs, self.params, self.cost)
        drv.memcpy_dtoh(self.host_cost, self.cost)
        elite = np.argsort(self.host_cost)[: self.population // 20]
        chosen = self.host_params[elite]
        return chosen.mean(axis=0), chosen.std(axis=0) + 1e-7, float(self.host_cost[elite[0]])

    def run(self, generations=30):
        mean, spread = np.zeros(3, np.float32), np.full(3, 0.3, np.float32)
        history = []
        for _ in range(generations):
            mean, spread, best = self.generation(mean, spread)
            history.append(best)
        return mean, history
