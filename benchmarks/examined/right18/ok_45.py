"""Two-stage saxpy chain across streams with cuda.core."""
import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void axpy(float a, const float* x, float* y, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void fill(float v, float* y, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = v;
}
"""


class Chain:
    def __init__(self, n, device_id=0):
        self.device = Device(device_id)
        self.device.set_current()
        arch = "".join(str(v) for v in self.device.compute_capability)
        options = ProgramOptions(std="c++17", arch=f"sm_{arch}")
        module = Program(SOURCE, code_type="c++", options=options).compile("cubin")
        self.axpy = module.get_kernel("axpy")
        self.fill = module.get_kernel("fill")
        self.n = n
        self.left = self.device.create_stream()
        self.right = self.device.create_stream()
        size = n * 4
        self.x = self.device.allocate(size, stream=self.left)
        self.y = self.device.allocate(size, stream=self.right)
        self.config = LaunchConfig(grid=-(-n // 256), block=256)
        self._run(self.left, self.fill, np.float32(0.0), self.x, self.n)
        self._run(self.right, self.fill, np.float32(0.0), self.y, self.n)

    def _run(self, stream, kernel, *args):
        fixed = [np.uint64(a) if isinstance(a, int) else a for a in args]
        launch(stream, self.config, kernel, *fixed)

    def set_source(self, value):
        self.left.wait(self.right.record())
        self._run(self.left, self.fill, np.float32(value), self.x, self.n)

    def accumulate(self, a):
        self.right.wait(self.left.record())
        self._run(self.right, self.axpy, np.float32(a), self.x, self.y, self.n)

    def feed_back(self, a):
        self.left.wait(self.right.record())
        self._run(self.left, self.axpy, np.float32(a), self.y, self.x, self.n)
        self.right.wait(self.left.record())

    def settle(self):
        self.left.sync()
        self.right.sync()

    def close(self):
        self.left.wait(self.right.record())
        self.x.close(stream=self.left)
        self.right.wait(self.left.record())
        self.y.close(stream=self.right)
        self.settle()


def drive(values, n=1 << 20):
    chain = Chain(n)
    try:
        for number, value in enumerate(values):
            chain.set_source(value)
            chain.accumulate(0.5)
            if number % 4 == 3:
                chain.feed_back(0.25)
        chain.settle()
    finally:
        chain.close()
