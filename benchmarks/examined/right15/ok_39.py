"""Residual of an iterative solver reported through mapped host memory."""
import numpy as np
from numba import cuda


@cuda.jit
def jacobi(x, y, rhs):
    i = cuda.grid(1)
    n = x.shape[0]
    if i < n:
        left = x[i - 1] if i > 0 else 0.0
        right = x[i + 1] if i < n - 1 else 0.0
        y[i] = 0.5 * (left + right + rhs[i])


@cuda.jit
def clear(residual):
    residual[0] = 0.0


@cuda.jit
def largest_change(x, y, residual):
    i = cuda.grid(1)
    if i < x.shape[0]:
        cuda.atomic.max(residual, 0, abs(x[i] - y[i]))


class Solver:
    def __init__(self, n):
        self.n = n
        self.grid = (n + 127) // 128
        self.stream = cuda.stream()
        self.x = cuda.device_array(n, dtype=np.float64)
        self.y = cuda.device_array(n, dtype=np.float64)
        self.rhs = cuda.device_array(n, dtype=np.float64)
        self.change = cuda.device_array(1, dtype=np.float64)
        self.residual = cuda.mapped_array(1, dtype=np.float64)

    @staticmethod
    def _publish(change, residual, stream):
        publish[1, 1, stream](change, residual)

    def solve(self, rhs, tolerance, sweeps=50, limit=200):
        host = np.ascontiguousarray(rhs, dtype=np.float64)
        start = np.zeros(self.n)
        self.rhs.copy_to_device(host, stream=self.stream)
        self.x.copy_to_device(start, stream=self.stream)
        self.y.copy_to_device(start, stream=self.stream)
        self.stream.synchronize()
        rounds = 0
        while rounds < limit:
            for _ in range(sweeps):
                jacobi[self.grid, 128, self.stream](self.x, self.y, self.rhs)
                jacobi[self.grid, 128, self.stream](self.y, self.x, self.rhs)
            clear[1, 1, self.stream](self.change)
            largest_change[self.grid, 128, self.stream](self.x, self.y, self.change)
            self._publish(self.change, self.residual, self.stream)
            rounds += 1
            self.stream.synchronize()
            if self.residual[0] < tolerance:
                break
        out = np.empty(self.n)
        self.x.copy_to_host(out, stream=self.stream)
        self.stream.synchronize()
        return out, rounds


@cuda.jit
def publish(change, residual):
    residual[0] = change[0]


def main():
    solver = Solver(256)
    for level in (1.0, 0.25):
        x, rounds = solver.solve(np.full(256, level * 1e-3), 1e-6)
        print(level, rounds, x.max())


if __name__ == "__main__":
    main()
