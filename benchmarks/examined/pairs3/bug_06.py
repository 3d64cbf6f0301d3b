"""Histogram of chunks with scratch buffers from the device's stream-ordered pool."""
import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__ void widen(const unsigned char *src, unsigned int *dst, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) dst[i] = src[i] >> 2;
}
extern "C" __global__ void count(const unsigned int *v, unsigned int *hist, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&hist[v[i] & 63u], 1u);
}
"""


def compile_kernels(dev):
    arch = "sm_" + "".join(str(i) for i in dev.compute_capability)
    mod = Program(CODE, code_type="c++", options=ProgramOptions(arch=arch)).compile("cubin")
    return mod.get_kernel("widen"), mod.get_kernel("count")


class ChunkHistogram:
    def __init__(self, dev, hist):
        self.dev = dev
        self.widen, self.count = compile_kernels(dev)
        self.prep = dev.create_stream()
        self.stats = dev.create_stream()
        self.hist = hist

    def add(self, chunk, n):
        cfg = LaunchConfig(grid=(n + 255) // 256, block=256)
        scratch = self.dev.allocate(4 * n, stream=self.prep)
        launch(self.prep, cfg, self.widen, chunk.handle, scratch.handle, np.uint64(n))
        self.stats.wait(self.prep.record())
        launch(self.stats, cfg, self.count, scratch.handle, self.hist.handle, np.uint64(n))
        scratch.close(self.prep)

    def finish(self):
        self.stats.sync()


def main(chunks=256, n=1 << 24):
    dev = Device()
    dev.set_current()
    setup = dev.create_stream()
    hist = dev.allocate(64 * 4, stream=setup)
    data = dev.allocate(n, stream=setup)
    setup.sync()
    h = ChunkHistogram(dev, hist)
    for _ in range(chunks):
        h.add(data, n)
    h.finish()


if __name__ == "__main__":
    main()
