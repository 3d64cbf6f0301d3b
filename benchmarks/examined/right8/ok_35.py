"""cuda.core: two streams, stage kernels and a buffer per stage."""
import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch
from cuda.core.experimental import LegacyPinnedMemoryResource

CODE = r"""
extern "C" __global__ void scale(float* x, float a, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; if (i < n) x[i] *= a; }
extern "C" __global__ void shift(const float* x, float* y, float b, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] + b; }
"""


class TwoStage:
    def __init__(self, n):
        self.dev = Device()
        self.dev.set_current()
        self.n, self.nbytes = n, 4 * n
        prog = Program(CODE, code_type="c++",
                       options=ProgramOptions(std="c++17", arch=f"sm_{self.dev.arch}"))
        mod = prog.compile("cubin")
        self.scale, self.shift = mod.get_kernel("scale"), mod.get_kernel("shift")
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.first, self.second = self.dev.create_stream(), self.dev.create_stream()
        self.pinned = LegacyPinnedMemoryResource()
        self.h_in, self.h_out = self.pinned.allocate(self.nbytes), self.pinned.allocate(self.nbytes)
        self.np_in = np.from_dlpack(self.h_in).view(np.float32)
        self.np_out = np.from_dlpack(self.h_out).view(np.float32)
        self.x = self.dev.allocate(self.nbytes, stream=self.first)
        self.y = self.dev.allocate(self.nbytes, stream=self.second)
        self.handoff = self.dev.create_event()

    def run(self, values, a, b):
        self.np_in[:] = values
        self.x.copy_from(self.h_in, stream=self.first)
        launch(self.first, self.config, self.scale, self.x, np.float32(a), np.uint64(self.n))
        self.first.record(self.handoff)
        self.second.wait(self.handoff)
        launch(self.second, self.config, self.shift, self.x, self.y, np.float32(b), np.uint64(self.n))
        self.y.copy_to(self.h_out, stream=self.second)
        self.second.sync()
        return self.np_out.copy()

    def close(self):
        self.first.sync()
        self.x.close(self.first)
        self.y.close(self.second)
        self.second.sync()


if __name__ == "__main__":
    p = TwoStage(1 << 20)
    for k in range(3):
        print(p.run(np.full(1 << 20, k, np.float32), 2.0, 1.0)[:2])
    p.close()
