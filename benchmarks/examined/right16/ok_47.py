"""Power iteration: vectors are updated on a stream, norms on the default stream (PyCUDA)."""
from __future__ import annotations

import numpy as np
import pycuda.autoprimaryctx  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_MODULE = SourceModule(
    """
__global__ void matvec(const float *a, const float *x, float *y, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) {
        float sum = 0.0f;
        for (int k = 0; k < n; ++k) sum += a[k * n + row] * x[k];
        y[row] = sum;
    }
}
__global__ void sumsq(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(out, x[i] * x[i]);
}
__global__ void scale(float *x, const float *norm2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= rsqrtf(norm2[0]);
}
"""
)


class PowerIteration:
    def __init__(self, matrix: np.ndarray, seed: int = 0):
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError("a square matrix is needed")
        self.n = matrix.shape[0]
        self._matvec = _MODULE.get_function("matvec")
        self._sumsq = _MODULE.get_function("sumsq")
        self._scale = _MODULE.get_function("scale")
        self._stream = drv.Stream()
        self._block = (128, 1, 1)
        self._grid = ((self.n + 127) // 128, 1)
        columns = np.ascontiguousarray(matrix.T, dtype=np.float32)
        self._a = drv.mem_alloc(columns.nbytes)
        drv.memcpy_htod(self._a, columns)
        self._x = drv.mem_alloc(4 * self.n)
        self._y = drv.mem_alloc(4 * self.n)
        self._norm2 = drv.mem_alloc(4)
        self.restart(seed)

    def restart(self, seed: int) -> None:
        start = np.random.default_rng(seed).normal(size=self.n).astype(np.float32)
        drv.memcpy_htod(self._x, start)
        self._normalize()

    def _normalize(self) -> None:
        n = np.int32(self.n)
        drv.memset_d32(self._norm2, 0, 1)
        self._sumsq(self._x, self._norm2, n, block=self._block, grid=self._grid)
        self._scale(self._x, self._norm2, n, block=self._block, grid=self._grid)

    def iterate(self, count: int) -> None:
        for _ in range(count):
            self._matvec(
                self._a, self._x, self._y, np.int32(self.n), block=self._block, grid=self._grid, stream=self._stream
            )
            self._x, self._y = self._y, self._x
            self._normalize()

    def eigenvalue(self) -> float:
        self._matvec(
            self._a, self._x, self._y, np.int32(self.n), block=self._block, grid=self._grid, stream=self._stream
        )
        x = np.empty(self.n, dtype=np.float32)
        y = np.empty(self.n, dtype=np.float32)
        drv.memcpy_dtoh(x, self._x)
        drv.memcpy_dtoh(y, self._y)
        return float(x.astype(np.float64) @ y)

    def vector(self) -> np.ndarray:
        out = np.empty(self.n, dtype=np.float32)
        drv.memcpy_dtoh(out, self._x)
        return out


def main() -> None:
    rng = np.random.default_rng(3)
    half = rng.random((300, 300), dtype=np.float32)
    matrix = (half + half.T) / 2
    solver = PowerIteration(matrix)
    want = float(np.linalg.eigvalsh(matrix.astype(np.float64))[-1])
    for _ in range(3):
        solver.iterate(10)
        print(solver.eigenvalue(), want)
    solver.restart(9)
    solver.iterate(40)
    print(solver.eigenvalue(), float(np.linalg.norm(solver.vector())))


if __name__ == "__main__":
    main()
