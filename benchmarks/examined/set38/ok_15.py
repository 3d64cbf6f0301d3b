"""Frame pipeline on cuda.core: temporaries travel from the producing to the consuming stream."""
import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__ void noise(float* img, unsigned int seed, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        unsigned int x = (unsigned int)i * 747796405u + seed * 2891336453u;
        x = ((x >> ((x >> 28) + 4)) ^ x) * 277803737u;
        img[i] = (float)(x >> 8) * (1.0f / 16777216.0f);
    }
}
extern "C" __global__ void smooth(const float* img, float* out, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        float s = 0.f;
        for (int k = -8; k <= 8; ++k) {
            size_t j = (i + n + k) % n;
            s += img[j];
        }
        out[i] = s / 17.f;
    }
}
extern "C" __global__ void energy(const float* out, double* acc, size_t n) {
    double s = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
        s += (double)out[i] * out[i];
    atomicAdd(acc, s);
}
"""


class Stage:
    def __init__(self, dev, kernel):
        self.dev = dev
        self.kernel = kernel
        self.stream = dev.create_stream()
        self.config = LaunchConfig(grid=256, block=256)

    def run(self, *args):
        launch(self.stream, self.config, self.kernel, *args)

    def after(self, other):
        self.stream.wait(other.stream.record())


class Pipeline:
    def __init__(self, n):
        self.dev = Device()
        self.dev.set_current()
        prog = Program(CODE, code_type="c++",
                       options=ProgramOptions(std="c++17", arch=f"sm_{self.dev.arch}"))
        mod = prog.compile("cubin")
        self.source = Stage(self.dev, mod.get_kernel("noise"))
        self.filter = Stage(self.dev, mod.get_kernel("smooth"))
        self.meter = Stage(self.dev, mod.get_kernel("energy"))
        self.n = n
        self.acc = LegacyPinnedMemoryResource().allocate(8)
        self.value = np.from_dlpack(self.acc).view(np.float64)
        self.value[0] = 0.0

    def frame(self, seed):
        n = np.uint64(self.n)
        img = self.dev.allocate(self.n * 4, stream=self.source.stream)
        self.source.run(img, np.uint32(seed), n)
        self.filter.after(self.source)
        out = self.dev.allocate(self.n * 4, stream=self.filter.stream)
        self.filter.run(img, out, n)
        img.close(stream=self.filter.stream)
        self.meter.after(self.filter)
        self.meter.run(out, self.acc, n)
        out.close(stream=self.meter.stream)

    def finish(self):
        self.meter.stream.sync()
        result = float(self.value[0])
        for s in (self.source, self.filter, self.meter):
            s.stream.close()
        return result


def main():
    p = Pipeline(1 << 23)
    for seed in range(20):
        p.frame(seed)
    print(p.finish())


if __name__ == "__main__":
    main()
