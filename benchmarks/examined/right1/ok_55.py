"""Vector pipeline written with cuda.core buffers on two streams."""
import numpy as np
from cuda.core.experimental import (
    Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions,
    StreamOptions, launch)

CODE = r"""
extern "C" __global__ void ramp(float* y, float a, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) y[i] = a * (float)i;
}
extern "C" __global__ void add(const float* x, const float* y, float* z, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) z[i] = x[i] + y[i];
}
"""


class Pipeline:
    def __init__(self, n):
        self.dev = Device()
        self.dev.set_current()
        arch = "".join(str(v) for v in self.dev.compute_capability)
        prog = Program(CODE, "c++", options=ProgramOptions(arch=f"sm_{arch}"))
        module = prog.compile("cubin", name_expressions=("ramp", "add"))
        self.ramp = module.get_kernel("ramp")
        self.add = module.get_kernel("add")
        opts = StreamOptions(nonblocking=True)
        self.left = self.dev.create_stream(options=opts)
        self.right = self.dev.create_stream(options=opts)
        self.n = n
        self.config = LaunchConfig(grid=256, block=256)
        self.host = LegacyPinnedMemoryResource().allocate(4 * n)

    def _fill(self, stream, buf, slope):
        launch(stream, self.config, self.ramp, buf, np.float32(slope), np.uint64(self.n))

    @property
    def result(self):
        self.left.sync()
        return np.from_dlpack(self.host).view(np.float32)

    def run(self, a, b):
        x = self.dev.allocate(4 * self.n, stream=self.left)
        y = self.dev.allocate(4 * self.n, stream=self.right)
        z = self.dev.allocate(4 * self.n, stream=self.left)
        self._fill(self.left, x, a)
        self._fill(self.right, y, b)
        self.left.wait(self.right.record())
        launch(self.left, self.config, self.add, x, y, z, np.uint64(self.n))
        self.right.wait(self.left.record())
        y.close(self.right)
        x.close(self.left)
        z.copy_to(self.host, stream=self.left)
        z.close(self.left)


def main():
    p = Pipeline(1 << 20)
    sums = []
    for k in range(4):
        p.run(1.0, float(k))
        sums.append(float(p.result.sum()))
    p.host.close()
    return sums


if __name__ == "__main__":
    print(main())
