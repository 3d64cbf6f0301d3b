"""Producer and consumer on two cuda.core streams with stream-ordered device
memory; results are collected in pinned host memory."""
import numpy as np
from cuda.core.experimental import (
    Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch,
)

SRC = r"""
extern "C" __global__ void produce(float* x, float seed, unsigned int n) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = sinf(seed + 0.001f * i);
}
extern "C" __global__ void consume(const float* x, float* sums, int slot, unsigned int n) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&sums[slot], x[i] * x[i]);
}
"""


class Kernels:
    def __init__(self, dev):
        arch = "sm_%d%d" % dev.compute_capability
        mod = Program(SRC, code_type="c++", options=ProgramOptions(arch=arch)).compile(
            "cubin", name_expressions=("produce", "consume"))
        self.produce = mod.get_kernel("produce")
        self.consume = mod.get_kernel("consume")


class Pipeline:
    def __init__(self, n, slots):
        self.dev = Device()
        self.dev.set_current()
        self.n, self.slots = n, slots
        self.kernels = Kernels(self.dev)
        self.producer = self.dev.create_stream()
        self.consumer = self.dev.create_stream()
        self.sums = self.dev.allocate(slots * 4, stream=self.consumer)
        self.host = LegacyPinnedMemoryResource().allocate(slots * 4)
        np.from_dlpack(self.host).view(np.float32)[:] = 0.0
        self.sums.copy_from(self.host, stream=self.consumer)
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)

    def submit(self, slot):
        n = np.uint32(self.n)
        x = self.dev.allocate(self.n * 4, stream=self.producer)
        launch(self.producer, self.config, self.kernels.produce, x, np.float32(slot), n)
        self.consumer.wait(self.producer.record())
        launch(self.consumer, self.config, self.kernels.consume, x, self.sums, np.int32(slot), n)
        x.close(self.consumer)

    def collect(self):
        self.sums.copy_to(self.host, stream=self.consumer)
        self.consumer.sync()
        return np.from_dlpack(self.host).view(np.float32).copy()

    def close(self):
        self.sums.close(self.consumer)
        self.consumer.sync()
        self.producer.sync()


def main():
    pipe = Pipeline(1 << 20, 32)
    for slot in range(32):
        pipe.submit(slot)
    print(pipe.collect()[:6])
    pipe.close()


if __name__ == "__main__":
    main()
