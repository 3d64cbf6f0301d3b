"""Producer and consumer kernels on two cuda.core streams."""
import cupy as cp
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__ void fill(float *x, float v, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) x[i] = v + i;
}
extern "C" __global__ void fold(const float *x, float *acc, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) acc[i] += x[i];
}
"""


class Folder:
    def __init__(self, n=1 << 22):
        self.dev = Device()
        self.dev.set_current()
        arch = "sm_" + "".join(str(i) for i in self.dev.compute_capability)
        mod = Program(CODE, code_type="c++", options=ProgramOptions(arch=arch)).compile("cubin")
        self.fill, self.fold = mod.get_kernel("fill"), mod.get_kernel("fold")
        self.n = n
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.produce = self.dev.create_stream()
        self.consume = self.dev.create_stream()
        self.x = cp.empty(n, cp.float32)
        self.acc = cp.zeros(n, cp.float32)
        self.dev.sync()
        self._free = None

    def round(self, value):
        if self._free is not None:
            self.produce.wait(self._free)
        launch(self.produce, self.config, self.fill, self.x.data.ptr, cp.float32(value), cp.uint64(self.n))
        filled = self.produce.record()
        self.consume.wait(filled)
        launch(self.consume, self.config, self.fold, self.x.data.ptr, self.acc.data.ptr, cp.uint64(self.n))
        self._free = self.consume.record()

    def close(self):
        self.produce.sync()
        self.consume.sync()
        total = float(self.acc.sum())
        self.produce.close()
        self.consume.close()
        return total


def main():
    f = Folder()
    for k in range(64):
        f.round(float(k))
    print(f.close())


if __name__ == "__main__":
    main()
