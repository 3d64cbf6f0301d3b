"""Dose map: rays are traced per beam and added to a map on a second stream."""
import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, launch

CODE = r"""
extern "C" __global__ void trace(float *dose, int n, float angle) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dose[i] = expf(-1e-6f * i) * fabsf(cosf(angle + 1e-4f * i));
}
extern "C" __global__ void add(float *map, const float *dose, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) map[i] += dose[i];
}
extern "C" __global__ void clear(float *map, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) map[i] = 0.f;
}
"""
N = 1 << 22


class DosePlan:
    def __init__(self):
        self.dev = Device()
        self.dev.set_current()
        mod = Program(CODE, code_type="c++").compile("cubin")
        self.trace, self.add, self.clear = (mod.get_kernel(k) for k in ("trace", "add", "clear"))
        self.tracer = self.dev.create_stream()
        self.adder = self.dev.create_stream()
        self.config = LaunchConfig(grid=(N + 255) // 256, block=256)
        self.map = self.dev.memory_resource.allocate(4 * N, stream=self.adder)
        launch(self.adder, self.config, self.clear, self.map, np.int32(N))

    def beam(self, angle):
        dose = self.dev.memory_resource.allocate(4 * N, stream=self.tracer)
        launch(self.tracer, self.config, self.trace, dose, np.int32(N), np.float32(angle))
        self.adder.wait(self.tracer.record())
        launch(self.adder, self.config, self.add, self.map, dose, np.int32(N))
        dose.close()

    def finish(self):
        self.adder.sync()
        return self.map


def main():
    plan = DosePlan()
    for angle in np.linspace(0.0, np.pi, 72):
        plan.beam(angle)
    print(plan.finish().size)


if __name__ == "__main__":
    main()
