"""Numba kernels and CuPy reductions working on the same arrays."""
import cupy as cp
import numpy as np
from numba import cuda


@cuda.jit
def langevin(x, noise, drift, dt):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += -drift * x[i] * dt + noise[i]


class SharedStream:
    """One CUDA stream as seen from CuPy and from Numba."""

    def __init__(self):
        self.cupy = cp.cuda.Stream(non_blocking=True)
        self.numba = cuda.external_stream(self.cupy.ptr)

    def __enter__(self):
        self.cupy.__enter__()
        return self

    def __exit__(self, *exc):
        self.cupy.__exit__(*exc)


class Walkers:
    def __init__(self, n, shared, seed=0):
        self.shared = shared
        with shared:
            self.rng = cp.random.default_rng(seed)
            self.x = cp.zeros(n, cp.float64)
            self.noise = cp.empty(n, cp.float64)
        self._x = cuda.as_cuda_array(self.x, sync=False)
        self._noise = cuda.as_cuda_array(self.noise, sync=False)
        self.grid = (n + 255) // 256

    def step(self, dt):
        with self.shared as s:
            self.rng.standard_normal(out=self.noise)
            self.noise *= np.sqrt(2 * dt)
            langevin[self.grid, 256, s.numba](self._x, self._noise, 1.0, dt)

    def moments(self):
        with self.shared:
            return float(self.x.mean()), float(self.x.var())


def main():
    walkers = Walkers(1 << 18, SharedStream())
    for k in range(1000):
        walkers.step(0.01)
        if k % 200 == 199:
            print(k, walkers.moments())


if __name__ == "__main__":
    main()
