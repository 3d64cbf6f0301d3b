"""Two-pass histogram equalisation written against cuda.core."""
import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__ void fill(unsigned int* p, unsigned int v, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) p[i] = v;
}
extern "C" __global__ void synth(unsigned int* img, unsigned int seed, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        unsigned int x = (unsigned int)i * 2654435761u + seed;
        img[i] = (x ^ (x >> 15)) & 0xffffu;
    }
}
extern "C" __global__ void histogram(const unsigned int* img, unsigned int* bins, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
        atomicAdd(&bins[img[i]], 1u);
}
extern "C" __global__ void remap(const unsigned int* img, const unsigned int* bins, unsigned long long* acc, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
        atomicAdd(acc, (unsigned long long)bins[img[i]]);
}
"""
BINS = 1 << 16


class Kernels:
    def __init__(self, dev):
        prog = Program(CODE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"sm_{dev.arch}"))
        mod = prog.compile("cubin")
        for name in ("fill", "synth", "histogram", "remap"):
            setattr(self, name, mod.get_kernel(name))


class Equaliser:
    def __init__(self, dev, pixels):
        self.dev = dev
        self.k = Kernels(dev)
        self.pixels = pixels
        self.cfg = LaunchConfig(grid=512, block=256)
        self.ingest = dev.create_stream()
        self.work = dev.create_stream()
        self.acc = LegacyPinnedMemoryResource().allocate(8)
        self.total = np.from_dlpack(self.acc).view(np.uint64)
        self.total[0] = 0

    def load(self, seed):
        img = self.dev.allocate(self.pixels * 4, stream=self.ingest)
        launch(self.ingest, self.cfg, self.k.synth, img, np.uint32(seed), np.uint64(self.pixels))
        return img

    def process(self, img):
        self.work.wait(self.ingest)
        bins = self.dev.allocate(BINS * 4, stream=self.work)
        launch(self.work, self.cfg, self.k.fill, bins, np.uint32(0), np.uint64(BINS))
        launch(self.work, self.cfg, self.k.histogram, img, bins, np.uint64(self.pixels))
        launch(self.work, self.cfg, self.k.remap, img, bins, self.acc, np.uint64(self.pixels))
        bins.close(stream=self.work)

    def frame(self, seed):
        img = self.load(seed)
        self.process(img)
        img.close(stream=self.ingest)

    def finish(self):
        self.work.sync()
        self.ingest.sync()
        return int(self.total[0])


def main():
    dev = Device()
    dev.set_current()
    eq = Equaliser(dev, 1 << 24)
    for seed in range(24):
        eq.frame(seed)
    print(eq.finish())
    eq.work.close()
    eq.ingest.close()


if __name__ == "__main__":
    main()
