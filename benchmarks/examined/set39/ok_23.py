"""Generate noise tiles on one stream and accumulate them on another."""
import numpy as np
from cuda.core.experimental import (
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

SRC = r"""
extern "C" __global__ void noise(float *dst, unsigned int seed, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned int h = (unsigned int)i * 2654435761u ^ seed;
        dst[i] = (float)(h & 0xffff) / 65536.0f;
    }
}
extern "C" __global__ void add_into(const float *src, float *acc, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) acc[i] += src[i];
}
extern "C" __global__ void clear(float *dst, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) dst[i] = 0.0f;
}
"""


class Accumulator:
    def __init__(self, dev, n):
        self.dev, self.n = dev, n
        opts = ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")
        names = ("noise", "add_into", "clear")
        mod = Program(SRC, code_type="c++", options=opts).compile("cubin", name_expressions=names)
        self.noise, self.add_into, clear = (mod.get_kernel(k) for k in names)
        self.cfg = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.pre = dev.create_stream()
        self.post = dev.create_stream()
        self.acc = dev.allocate(n * 4, stream=self.post)
        launch(self.post, self.cfg, clear, self.acc, np.uint64(n))

    def push(self, seed):
        tile = self.dev.allocate(self.n * 4, stream=self.pre)
        launch(self.pre, self.cfg, self.noise, tile, np.uint32(seed), np.uint64(self.n))
        self.post.wait(self.pre.record())
        launch(self.post, self.cfg, self.add_into, tile, self.acc, np.uint64(self.n))
        tile.close(stream=self.post)

    def read(self):
        host = LegacyPinnedMemoryResource().allocate(self.n * 4)
        self.acc.copy_to(host, stream=self.post)
        self.post.sync()
        return np.from_dlpack(host).view(np.float32)


def main(n=1 << 22, tiles=24):
    dev = Device(0)
    dev.set_current()
    acc = Accumulator(dev, n)
    for seed in range(tiles):
        acc.push(seed * 7919 + 1)
    print("mean", float(acc.read().mean()) / tiles)


if __name__ == "__main__":
    main()
