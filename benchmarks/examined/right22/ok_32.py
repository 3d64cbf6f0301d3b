import math

import numpy as np
from numba import cuda


@cuda.jit
def scale_add(x, y, a):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def soften(y, t):
    i = cuda.grid(1)
    if i < y.size:
        v = abs(y[i]) - t
        y[i] = math.copysign(max(v, 0.0), y[i])


class Solver:
    def __init__(self, n, stream=None):
        self.n = n
        self.stream = stream if stream is not None else cuda.stream()
        self.y = cuda.device_array(n, np.float64, stream=self.stream)
        self.out = cuda.pinned_array(n, np.float64)

    @property
    def shape(self):
        return (self.n + 255) // 256, 256

    def reset(self):
        zeros = np.zeros(self.n)
        self.y.copy_to_device(zeros, stream=self.stream)
        self.stream.synchronize()

    def push(self, x, a):
        grid, block = self.shape
        scale_add[grid, block, self.stream](x, self.y, a)

    def shrink(self, t):
        grid, block = self.shape
        soften[grid, block, self.stream](self.y, t)

    def fetch(self):
        self.y.copy_to_host(self.out, stream=self.stream)
        self.stream.synchronize()
        return self.out


def run(solver, sources, rounds):
    solver.reset()
    for r in range(rounds):
        for x in sources:
            solver.push(x, 1.0 / (r + 1))
        solver.shrink(0.05)
    return solver.fetch().copy()


def main():
    n = 1 << 18
    rng = np.random.default_rng(0)
    plain = rng.standard_normal(n)
    stream = cuda.stream()
    page = cuda.pinned_array(n, np.float64)
    page[:] = rng.standard_normal(n)
    resident = cuda.to_device(page, stream=stream)
    solver = Solver(n, stream)
    first = run(solver, [resident], 4)
    page[:] = 0.0
    second = run(solver, [plain, resident], 4)
    stream.synchronize()
    print(first.sum(), second.sum())


if __name__ == "__main__":
    main()
