"""Two-stage cuda.core pipeline that hands each buffer over to the consuming stream."""
import numpy as np
from cuda.core import (
    Device,
    DeviceMemoryResource,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

CODE = r"""
extern "C" __global__ void generate(float* x, int n, float phase) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = __cosf(phase * i);
}
extern "C" __global__ void absorb(const float* x, float* total, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        total[i] = 0.9f * total[i] + x[i];
}
"""


def compile_kernels(dev):
    opts = ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")
    mod = Program(CODE, code_type="c++", options=opts).compile("cubin")
    return mod.get_kernel("generate"), mod.get_kernel("absorb")


class Producer:
    def __init__(self, dev, mr, kernel, n):
        self.stream = dev.create_stream()
        self.mr, self.kernel, self.n = mr, kernel, n
        self.config = LaunchConfig(grid=(128,), block=(256,))

    def make(self, phase):
        buf = self.mr.allocate(self.n * 4, stream=self.stream)
        launch(self.stream, self.config, self.kernel, buf, np.int32(self.n), np.float32(phase))
        return buf, self.stream.record()


class Consumer:
    def __init__(self, dev, mr, kernel, n):
        self.stream = dev.create_stream()
        self.kernel, self.n = kernel, n
        self.config = LaunchConfig(grid=(128,), block=(256,))
        self.total = mr.allocate(n * 4, stream=self.stream)
        self.total.fill(0, stream=self.stream)

    def adopt(self, buf, ready):
        self.stream.wait(ready)
        buf.set_deallocation_stream(self.stream)

    def eat(self, buf):
        launch(self.stream, self.config, self.kernel, buf, self.total, np.int32(self.n))
        buf.close()

    def snapshot(self, pinned_mr):
        out = pinned_mr.allocate(self.n * 4)
        self.total.copy_to(out, stream=self.stream)
        done = self.stream.record()
        done.sync()
        return np.from_dlpack(out).view(np.float32).copy()


def main(n=1 << 22, rounds=64):
    dev = Device()
    dev.set_current()
    generate, absorb = compile_kernels(dev)
    mr = DeviceMemoryResource(dev)
    producer = Producer(dev, mr, generate, n)
    consumer = Consumer(dev, mr, absorb, n)
    for k in range(rounds):
        buf, ready = producer.make(1e-4 * k)
        consumer.adopt(buf, ready)
        consumer.eat(buf)
    values = consumer.snapshot(LegacyPinnedMemoryResource())
    consumer.total.close()
    dev.sync()
    print(values[:4], values.mean())


if __name__ == "__main__":
    main()
