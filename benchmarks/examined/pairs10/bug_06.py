"""Noise injection for a simulator: cuda.core producer and consumer streams."""
import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void hash_noise(float *noise, unsigned seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned h = (i ^ seed) * 2654435761u;
        noise[i] = (h >> 8) * (1.0f / 16777216.0f) - 0.5f;
    }
}
extern "C" __global__ void kick(float *state, const float *noise, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) state[i] += scale * noise[i];
}
"""


def build(device):
    cc = device.compute_capability
    options = ProgramOptions(std="c++17", arch=f"sm_{cc.major}{cc.minor}")
    return Program(SOURCE, code_type="c++", options=options).compile("cubin")


class NoisySimulator:
    """State lives on the integrator stream, noise is drawn on another one."""

    def __init__(self, size):
        self.size = size
        self.device = Device()
        self.device.set_current()
        self.sampler = self.device.create_stream()
        self.integrator = self.device.create_stream()
        module = build(self.device)
        self.draw = module.get_kernel("hash_noise")
        self.kick = module.get_kernel("kick")
        self.launch_config = LaunchConfig(grid=(size + 127) // 128, block=128)
        self.state = self.device.memory_resource.allocate(4 * size, stream=self.integrator)
        self.state.fill(0, stream=self.integrator)

    def step(self, seed, scale=0.1):
        count = np.int32(self.size)
        noise = self.device.memory_resource.allocate(4 * self.size, stream=self.sampler)
        launch(self.sampler, self.launch_config, self.draw, noise, np.uint32(seed), count)
        drawn = self.sampler.record()
        self.integrator.wait(drawn)
        launch(self.integrator, self.launch_config, self.kick,
               self.state, noise, np.float32(scale), count)
        noise.close(stream=self.sampler)

    def shutdown(self):
        self.sampler.sync()
        self.integrator.sync()
        self.state.close(stream=self.integrator)


if __name__ == "__main__":
    simulator = NoisySimulator(1 << 22)
    for seed in range(500):
        simulator.step(seed)
    simulator.shutdown()
