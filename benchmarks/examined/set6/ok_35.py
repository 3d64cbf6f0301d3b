import numpy as np
from cuda.core.experimental import (
    Device,
    DeviceMemoryResource,
    LaunchConfig,
    Program,
    ProgramOptions,
    launch,
)

_CODE = r"""
extern "C" __global__ void ramp(float* x, float step, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = step * i;
}
extern "C" __global__ void blend(const float* a, const float* b, float* out, float t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] * (1.f - t) + b[i] * t;
}
"""


class Blender:
    """Two producer streams, one consumer stream, stream ordered temporaries."""

    def __init__(self, n: int):
        self.n = n
        self.device = Device()
        self.device.set_current()
        self.producers = [self.device.create_stream() for _ in range(2)]
        self.consumer = self.device.create_stream()
        self.pool = DeviceMemoryResource(self.device)
        arch = "".join(f"{i}" for i in self.device.compute_capability)
        program = Program(_CODE, code_type="c++", options=ProgramOptions(arch=f"sm_{arch}"))
        module = program.compile("cubin")
        self.ramp = module.get_kernel("ramp")
        self.blend = module.get_kernel("blend")

    def _config(self) -> LaunchConfig:
        return LaunchConfig(grid=(self.n + 255) // 256, block=256)

    def _produce(self, stream, step: float):
        buffer = self.pool.allocate(self.n * 4, stream=stream)
        launch(stream, self._config(), self.ramp, buffer, np.float32(step), np.int32(self.n))
        return buffer, stream.record()

    def __call__(self, steps, t: float):
        inputs = []
        for stream, step in zip(self.producers, steps):
            buffer, done = self._produce(stream, step)
            self.consumer.wait(done)
            inputs.append(buffer)
        out = self.pool.allocate(self.n * 4, stream=self.consumer)
        launch(
            self.consumer,
            self._config(),
            self.blend,
            inputs[0],
            inputs[1],
            out,
            np.float32(t),
            np.int32(self.n),
        )
        for buffer in inputs:
            buffer.close(self.consumer)
        return out

    def release(self, out) -> None:
        out.close(self.consumer)


def sweep(n: int, ts):
    blender = Blender(n)
    for t in ts:
        out = blender((0.5, 2.0), t)
        blender.release(out)
    blender.consumer.sync()
