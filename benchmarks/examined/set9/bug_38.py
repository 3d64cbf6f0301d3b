import math

import numpy as np
from numba import cuda


@cuda.jit
def relax(grid, out, omega):
    i, j = cuda.grid(2)
    if 0 < i < grid.shape[0] - 1 and 0 < j < grid.shape[1] - 1:
        avg = 0.25 * (grid[i - 1, j] + grid[i + 1, j] + grid[i, j - 1] + grid[i, j + 1])
        out[i, j] = grid[i, j] + omega * (avg - grid[i, j])


@cuda.jit
def residual(grid, out, status):
    i, j = cuda.grid(2)
    if i < grid.shape[0] and j < grid.shape[1]:
        cuda.atomic.max(status, 0, abs(out[i, j] - grid[i, j]))


class PoissonSolver:
    """Jacobi iterations on the device; the residual comes back through mapped memory."""

    def __init__(self, boundary: np.ndarray, omega: float = 0.9, check_every: int = 20):
        self.stream = cuda.stream()
        self.grid = cuda.to_device(boundary, stream=self.stream)
        self.next = cuda.to_device(boundary, stream=self.stream)
        self.status = cuda.mapped_array(1, dtype=np.float64)
        self.omega = omega
        self.check_every = check_every
        self.tpb = (16, 16)
        self.bpg = tuple(math.ceil(n / t) for n, t in zip(boundary.shape, self.tpb))

    def _sweep(self):
        relax[self.bpg, self.tpb, self.stream](self.grid, self.next, self.omega)
        self.grid, self.next = self.next, self.grid

    def _residual(self) -> float:
        self.stream.synchronize()
        self.status[0] = 0.0
        residual[self.bpg, self.tpb, self.stream](self.next, self.grid, self.status)
        return float(self.status[0])

    def solve(self, tol: float = 1e-6, max_iter: int = 100_000):
        history = []
        for it in range(max_iter):
            self._sweep()
            if it % self.check_every == 0:
                history.append(self._residual())
                if history[-1] < tol:
                    break
        result = self.grid.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return result, history


def main(n: int = 2048):
    boundary = np.zeros((n, n))
    boundary[0, :] = 1.0
    field, history = PoissonSolver(boundary).solve()
    print(f"{len(history)} checks, last residual {history[-1]:.3e}, mean {field.mean():.6f}")


if __name__ == "__main__":
    main()
