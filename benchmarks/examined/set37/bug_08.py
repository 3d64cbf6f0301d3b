"""Time step control of an explicit hydro code: element-wise limits are reduced to one global step."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SOURCE = r"""
__global__ void advance(float *q, const float *v, float dt, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) q[i] = fmaxf(1e-3f, q[i] + dt * v[i]);
}

__global__ void partial_min(const float *q, float *partial, int n)
{
    __shared__ float s[256];
    float best = 1e20f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        best = fminf(best, rsqrtf(q[i]));
    s[threadIdx.x] = best;
    __syncthreads();
    for (int w = 128; w > 0; w >>= 1) {
        if (threadIdx.x < w) s[threadIdx.x] = fminf(s[threadIdx.x], s[threadIdx.x + w]);
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = s[0];
}

__global__ void final_min(const float *partial, float *result, int n)
{
    __shared__ float s[256];
    s[threadIdx.x] = threadIdx.x < n ? partial[threadIdx.x] : 1e20f;
    __syncthreads();
    for (int w = 128; w > 0; w >>= 1) {
        if (threadIdx.x < w) s[threadIdx.x] = fminf(s[threadIdx.x], s[threadIdx.x + w]);
        __syncthreads();
    }
    if (threadIdx.x == 0) result[0] = 0.3f * s[0];
}
"""


class TimeStepControl:
    BLOCKS = 256

    def __init__(self, module: SourceModule, elements: int):
        self.elements = np.int32(elements)
        self.partial_min = module.get_function("partial_min")
        self.final_min = module.get_function("final_min")
        self.streams = [drv.Stream(), drv.Stream()]
        self.partial = drv.mem_alloc(self.BLOCKS * 4)
        self.result = drv.mem_alloc(4)
        self.host = drv.pagelocked_empty(1, np.float32)
        self.computed = drv.Event()

    def launch(self, q: drv.DeviceAllocation) -> None:
        block = (256, 1, 1)
        self.partial_min(
            q, self.partial, self.elements, block=block, grid=(self.BLOCKS, 1), stream=self.streams[0]
        )
        self.final_min(
            self.partial, self.result, np.int32(self.BLOCKS), block=block, grid=(1, 1), stream=self.streams[1]
        )
        drv.memcpy_dtoh_async(self.host, self.result, self.streams[1])
        self.computed.record(self.streams[1])

    def value(self) -> float:
        self.computed.synchronize()
        return float(self.host[0])


class Simulation:
    def __init__(self, elements: int):
        module = SourceModule(SOURCE)
        self.elements = elements
        self.advance = module.get_function("advance")
        self.control = TimeStepControl(module, elements)
        rng = np.random.default_rng(0)
        self.q = drv.to_device(rng.random(elements, dtype=np.float32) + 1.0)
        self.v = drv.to_device(rng.standard_normal(elements).astype(np.float32))
        self.dt = 1e-4

    def step(self) -> None:
        main = self.control.streams[0]
        grid = ((self.elements + 255) // 256, 1)
        self.advance(
            self.q, self.v, np.float32(self.dt), np.int32(self.elements), block=(256, 1, 1), grid=grid, stream=main
        )
        self.control.launch(self.q)
        self.dt = self.control.value()


if __name__ == "__main__":
    sim = Simulation(1 << 24)
    for _ in range(50):
        sim.step()
    print(sim.dt)
