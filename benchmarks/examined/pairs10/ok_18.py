"""Three-stage cuda.core pipeline; the stages are chained stream by stream."""
import numpy as np
from cuda.core.experimental import (
    Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch)

CODE = """
extern "C" __global__ void gamma(const float *src, float *dst, float g, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = powf(src[i], g);
}
"""


class GammaPipeline:
    def __init__(self, n):
        self.n = n
        self.dev = Device()
        self.dev.set_current()
        self.loading = self.dev.create_stream()
        self.working = self.dev.create_stream()
        self.storing = self.dev.create_stream()
        cc = self.dev.compute_capability
        options = ProgramOptions(std="c++17", arch=f"sm_{cc.major}{cc.minor}")
        self.kernel = Program(CODE, "c++", options).compile("cubin").get_kernel("gamma")
        pinned = LegacyPinnedMemoryResource()
        memory = self.dev.memory_resource
        self.h_in = pinned.allocate(4 * n)
        self.h_out = pinned.allocate(4 * n)
        self.source = np.from_dlpack(self.h_in).view(np.float32)
        self.target = np.from_dlpack(self.h_out).view(np.float32)
        self.d_in = memory.allocate(4 * n, stream=self.loading)
        self.d_out = memory.allocate(4 * n, stream=self.working)

    def run(self, image, g):
        self.source[:] = image
        self.h_in.copy_to(self.d_in, stream=self.loading)
        self.working.wait(self.loading)
        launch(self.working, LaunchConfig(grid=(self.n + 255) // 256, block=256), self.kernel,
               self.d_in, self.d_out, np.float32(g), np.int32(self.n))
        self.storing.wait(self.working)
        self.d_out.copy_to(self.h_out, stream=self.storing)
        self.storing.sync()
        return float(self.target.mean())


def main():
    rng = np.random.default_rng(2)
    pipeline = GammaPipeline(1 << 22)
    for g in np.linspace(0.5, 2.5, 9):
        print(g, pipeline.run(rng.random(1 << 22, dtype=np.float32), g))


if __name__ == "__main__":
    main()
