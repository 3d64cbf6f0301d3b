"""Convergence monitoring with mapped host memory in Numba."""
import numpy as np
from numba import cuda


@cuda.jit
def relax(u, f, out):
    i = cuda.grid(1)
    if 0 < i < u.size - 1:
        out[i] = 0.5 * (u[i - 1] + u[i + 1] + f[i])


@cuda.jit
def max_change(a, b, result):
    i = cuda.grid(1)
    if i < a.size:
        cuda.atomic.max(result, 0, abs(a[i] - b[i]))


class Poisson1D:
    def __init__(self, f, check_every=50):
        self.stream = cuda.stream()
        self.f = cuda.to_device(f)
        self.u = [cuda.to_device(np.zeros_like(f)) for _ in range(2)]
        self.change = cuda.mapped_array(1, dtype=f.dtype)
        self.check_every = check_every
        self.blocks = (f.size + 127) // 128

    def _sweep(self, k):
        src, dst = self.u[k % 2], self.u[(k + 1) % 2]
        relax[self.blocks, 128, self.stream](src, self.f, dst)
        return src, dst

    def solve(self, tol=1e-9, limit=100000):
        for k in range(limit):
            src, dst = self._sweep(k)
            if k % self.check_every == 0:
                self.change[0] = 0.0
                max_change[self.blocks, 128, self.stream](src, dst, self.change)
                self.stream.synchronize()
                if self.change[0] < tol:
                    break
        return dst.copy_to_host(stream=self.stream), k


def main(n=1 << 14):
    h = 1.0 / n
    x = np.linspace(0, 1, n)
    solver = Poisson1D(h * h * np.sin(np.pi * x))
    u, sweeps = solver.solve()
    solver.stream.synchronize()
    print(sweeps, u.max())


if __name__ == "__main__":
    main()
