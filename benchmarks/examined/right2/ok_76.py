"""Poisson relaxation with host-side convergence checks on managed memory."""
import numpy as np
from numba import cuda


@cuda.jit
def relax(src, dst, rhs, peak):
    i = cuda.grid(1)
    if 0 < i < src.size - 1:
        value = 0.5 * (src[i - 1] + src[i + 1] + rhs[i])
        dst[i] = value
        cuda.atomic.max(peak, 0, abs(value - src[i]))


class Poisson1D:
    def __init__(self, rhs, left=0.0, right=0.0):
        n = rhs.size
        self.stream = cuda.stream()
        self.now = cuda.managed_array(n, dtype=np.float64)
        self.nxt = cuda.managed_array(n, dtype=np.float64)
        self.rhs = cuda.managed_array(n, dtype=np.float64)
        self.peak = cuda.managed_array(1, dtype=np.float64)
        self.rhs[:] = rhs
        for field in (self.now, self.nxt):
            field[:] = 0.0
            field[0] = left
            field[-1] = right
        self.grid = (n + 127) // 128

    def _sweeps(self, count):
        self.peak[0] = 0.0
        with self.stream.auto_synchronize() as s:
            for _ in range(count):
                relax[self.grid, 128, s](self.now, self.nxt, self.rhs, self.peak)
                self.now, self.nxt = self.nxt, self.now
        return float(self.peak[0])

    def solve(self, tolerance=1e-7, limit=200):
        for iteration in range(limit):
            change = self._sweeps(50)
            if change < tolerance:
                break
        return np.array(self.now), iteration


def main(n=2048):
    x = np.linspace(0.0, 1.0, n)
    solver = Poisson1D(np.sin(np.pi * x) / n**2, left=1.0, right=-1.0)
    field, iterations = solver.solve()
    return field.mean(), iterations


if __name__ == "__main__":
    print(main())
