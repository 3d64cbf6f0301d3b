"""Polynomial evaluation: kernels on ordinary streams, GPUArray arithmetic on the default."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule

SOURCE = """
__global__ void term(const double *x, double *out, double c, int power, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double v = c;
    for (int k = 0; k < power; ++k) v *= x[i];
    out[i] = v;
}
"""


class Polynomial:
    def __init__(self, coefficients, n):
        self.coefficients = list(coefficients)
        self.n = n
        self.kernel = SourceModule(SOURCE).get_function("term")
        self.streams = [drv.Stream() for _ in self.coefficients]
        self.terms = [gpuarray.empty(n, np.float64) for _ in self.coefficients]

    def _launch(self, x):
        grid = ((self.n + 255) // 256, 1)
        for power, (c, stream) in enumerate(zip(self.coefficients, self.streams)):
            self.kernel(x.gpudata, self.terms[power].gpudata, np.float64(c),
                        np.int32(power), np.int32(self.n),
                        block=(256, 1, 1), grid=grid, stream=stream)

    def __call__(self, values):
        values = np.ascontiguousarray(values, dtype=np.float64)
        if values.shape != (self.n,):
            raise ValueError("wrong length")
        x = gpuarray.to_gpu(values)
        self._launch(x)
        total = gpuarray.zeros(self.n, np.float64)
        for term in self.terms:
            total += term
        return total.get()

    def iterate(self, values, times):
        x = gpuarray.to_gpu(np.ascontiguousarray(values, dtype=np.float64))
        for _ in range(times):
            self._launch(x)
            x.fill(0.0)
            for term in self.terms:
                x += term
        return x.get()


def main():
    polynomial = Polynomial([0.5, -1.0, 0.25, 0.125], 10_000)
    values = np.linspace(-1, 1, 10_000)
    wanted = np.polynomial.polynomial.polyval(values, polynomial.coefficients)
    np.testing.assert_allclose(polynomial(values), wanted, rtol=1e-9, atol=1e-12)
    twice = np.polynomial.polynomial.polyval(wanted, polynomial.coefficients)
    np.testing.assert_allclose(polynomial.iterate(values, 2), twice, rtol=1e-9, atol=1e-12)


if __name__ == "__main__":
    main()
