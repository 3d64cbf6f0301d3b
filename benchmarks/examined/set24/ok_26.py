"""Ping-pong between a producer and a consumer stream with cuda.core."""
import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__ void fill(float* dst, float value, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) dst[i] = value + i;
}
extern "C" __global__ void accumulate(float* acc, const float* src, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) acc[i] += src[i];
}
"""


class Kernels:
    def __init__(self, dev):
        opts = ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")
        mod = Program(CODE, code_type="c++", options=opts).compile("cubin")
        self.fill = mod.get_kernel("fill")
        self.accumulate = mod.get_kernel("accumulate")


class PingPong:
    def __init__(self, n):
        self.dev = Device()
        self.dev.set_current()
        self.n = n
        self.kernels = Kernels(self.dev)
        self.producer = self.dev.create_stream()
        self.consumer = self.dev.create_stream()
        mr = self.dev.memory_resource
        self.frame = mr.allocate(4 * n, stream=self.producer)
        self.acc = mr.allocate(4 * n, stream=self.consumer)
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.consumed = None
        launch(self.consumer, self.config, self.kernels.fill, self.acc, np.float32(0), np.uint64(n))

    def step(self, value):
        if self.consumed is not None:
            self.producer.wait(self.consumed)
        launch(self.producer, self.config, self.kernels.fill, self.frame, np.float32(value), np.uint64(self.n))
        produced = self.producer.record()
        self.consumer.wait(produced)
        launch(self.consumer, self.config, self.kernels.accumulate, self.acc, self.frame, np.uint64(self.n))
        self.consumed = self.consumer.record()

    def close(self):
        self.frame.close(self.consumer)
        self.acc.close(self.consumer)
        self.consumer.sync()
        self.producer.sync()


def main():
    loop = PingPong(1 << 22)
    for i in range(100):
        loop.step(float(i))
    loop.close()


if __name__ == "__main__":
    main()
