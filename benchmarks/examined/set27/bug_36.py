"""Red-black Gauss-Seidel on two independent subdomains; residuals are reported through mapped memory."""
import math

import numpy as np
from numba import cuda

TPB = (16, 16)


@cuda.jit
def sweep(u, f, h2, color, omega, residual):
    i, j = cuda.grid(2)
    n, m = u.shape
    if 0 < i < n - 1 and 0 < j < m - 1 and (i + j) % 2 == color:
        r = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j] + h2 * f[i, j]
        u[i, j] += omega * 0.25 * r
        cuda.atomic.max(residual, 0, abs(r))


class Subdomain:
    def __init__(self, f, h):
        self.h2 = h * h
        self.stream = cuda.stream()
        self.u = cuda.to_device(np.zeros_like(f))
        self.f = cuda.to_device(np.ascontiguousarray(f))
        self.residual = cuda.mapped_array(1, dtype=np.float64)
        self.residual[0] = 0.0
        self.grid = tuple(math.ceil(s / t) for s, t in zip(f.shape, TPB))

    def relax(self, omega, sweeps):
        for _ in range(sweeps):
            for color in (0, 1):
                sweep[self.grid, TPB, self.stream](
                    self.u, self.f, self.h2, color, omega, self.residual)


class TwoDomainSolver:
    def __init__(self, parts, h, omega=1.9):
        self.domains = [Subdomain(p, h) for p in parts]
        self.omega = omega
        self.history = []
        cuda.synchronize()

    def _read_residuals(self):
        values = []
        for domain in self.domains:
            values.append(float(domain.residual[0]))
            domain.residual[0] = 0.0
        return max(values)

    def solve(self, tol, max_iter, sweeps=10):
        for it in range(max_iter):
            for domain in self.domains:
                domain.relax(self.omega, sweeps)
            self.domains[0].stream.synchronize()
            res = self._read_residuals()
            self.history.append(res)
            if res < tol:
                return it + 1
        return max_iter

    def solution(self):
        out = []
        for domain in self.domains:
            domain.stream.synchronize()
            out.append(domain.u.copy_to_host())
        return out


def main(n=2050):
    h = 1.0 / (n - 1)
    x = np.linspace(0.0, 1.0, n)
    base = 2.0 * np.pi ** 2 * np.outer(np.sin(np.pi * x), np.sin(np.pi * x))
    wide = np.concatenate([base, base[:, ::-1]], axis=1)
    solver = TwoDomainSolver([base, wide], h)
    its = solver.solve(tol=1e-7, max_iter=2000)
    left, right = solver.solution()
    print(its, solver.history[-1], float(left.max()), float(right.max()))


if __name__ == "__main__":
    main()
