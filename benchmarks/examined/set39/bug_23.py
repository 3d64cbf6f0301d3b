"""Streaming filter: one stream makes tiles, a second one blends them."""
import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

SRC = r"""
extern "C" __global__ void ramp(float *dst, float base, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) dst[i] = base + (float)(i % 97);
}
extern "C" __global__ void blend(const float *src, float *acc, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) {
        float v = src[i];
        for (int k = 0; k < 64; ++k) v = 0.5f * v + 0.25f * src[(i + k) % n];
        acc[i] += v;
    }
}
"""


def build(dev):
    opts = ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")
    mod = Program(SRC, code_type="c++", options=opts).compile(
        "cubin", name_expressions=("ramp", "blend")
    )
    return mod.get_kernel("ramp"), mod.get_kernel("blend")


class Blender:
    def __init__(self, dev, n):
        self.dev = dev
        self.n = n
        self.pre = dev.create_stream()
        self.post = dev.create_stream()
        self.ramp, self.blend = build(dev)
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.acc = dev.allocate(n * 4, stream=self.post)
        launch(self.post, self.config, self.ramp, self.acc, np.float32(0), np.uint64(n))

    def step(self, base):
        n = np.uint64(self.n)
        tile = self.dev.allocate(self.n * 4, stream=self.pre)
        launch(self.pre, self.config, self.ramp, tile, np.float32(base), n)
        ready = self.pre.record()
        self.post.wait(ready)
        launch(self.post, self.config, self.blend, tile, self.acc, n)

    def finish(self, host):
        self.acc.copy_to(host, stream=self.post)
        self.post.sync()
        self.pre.sync()


def main(n=1 << 24, steps=32):
    dev = Device(0)
    dev.set_current()
    blender = Blender(dev, n)
    from cuda.core.experimental import LegacyPinnedMemoryResource

    host = LegacyPinnedMemoryResource().allocate(n * 4)
    for k in range(steps):
        blender.step(float(k))
    blender.finish(host)
    print("first", np.from_dlpack(host).view(np.float32)[:4])


if __name__ == "__main__":
    main()
