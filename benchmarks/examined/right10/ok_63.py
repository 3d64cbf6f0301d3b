"""PyCUDA: coefficients are updated on the default stream between launches on worker streams."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SRC = """
__constant__ float coef[4];

__global__ void poly(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += coef[0] + x[i] * (coef[1] + x[i] * (coef[2] + x[i] * coef[3]));
}

__global__ void decay(float *y, float f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] *= f;
}
"""


class PolyBank:
    def __init__(self, parts, n):
        mod = SourceModule(SRC)
        self.poly = mod.get_function("poly")
        self.decay = mod.get_function("decay")
        self.coef, _ = mod.get_global("coef")
        self.n = n
        self.block = (256, 1, 1)
        self.grid = ((n + 255) // 256, 1)
        self.streams = [drv.Stream() for _ in range(parts)]
        self.xs, self.ys = [], []
        for k in range(parts):
            x = np.linspace(-1, 1, n, dtype=np.float32) + k
            self.xs.append(drv.to_device(x))
            self.ys.append(drv.to_device(np.zeros_like(x)))

    def set(self, c):
        drv.memcpy_htod(self.coef, np.asarray(c, np.float32))

    def accumulate(self):
        for s, x, y in zip(self.streams, self.xs, self.ys):
            self.poly(x, y, np.int32(self.n), block=self.block, grid=self.grid, stream=s)

    def damp(self, f):
        for y in self.ys:
            self.decay(y, np.float32(f), np.int32(self.n), block=self.block, grid=self.grid)

    def fetch(self):
        return [drv.from_device(y, (self.n,), np.float32) for y in self.ys]


def main():
    bank = PolyBank(4, 1 << 18)
    for step in range(20):
        bank.set([1.0, -0.5, 0.1 * step, 0.01])
        bank.accumulate()
        bank.damp(0.95)
    print([float(y.mean()) for y in bank.fetch()])


if __name__ == "__main__":
    main()
