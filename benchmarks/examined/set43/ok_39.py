"""Red/black relaxation of a Poisson problem with a residual monitor (Numba)."""
import argparse

import numpy as np
from numba import cuda


@cuda.jit
def sweep(u, rhs, h2, colour):
    x, y = cuda.grid(2)
    ny, nx = u.shape
    if 0 < x < nx - 1 and 0 < y < ny - 1 and (x + y) % 2 == colour:
        u[y, x] = 0.25 * (u[y, x - 1] + u[y, x + 1] + u[y - 1, x] + u[y + 1, x] - h2 * rhs[y, x])


@cuda.jit
def residual(u, rhs, h2, out):
    x, y = cuda.grid(2)
    ny, nx = u.shape
    if 0 < x < nx - 1 and 0 < y < ny - 1:
        r = (u[y, x - 1] + u[y, x + 1] + u[y - 1, x] + u[y + 1, x] - 4.0 * u[y, x]) / h2 - rhs[y, x]
        cuda.atomic.max(out, 0, abs(r))


@cuda.jit
def pin_edges(u, value):
    i = cuda.grid(1)
    ny, nx = u.shape
    if i < nx:
        u[0, i] = value
        u[ny - 1, i] = value
    if i < ny:
        u[i, 0] = value
        u[i, nx - 1] = value


class Monitor:
    """Samples the residual on its own stream into page-locked memory."""

    def __init__(self):
        self.stream = cuda.stream()
        self.dev = cuda.device_array(1, dtype=np.float64)
        self.host = cuda.pinned_array(1, dtype=np.float64)
        self.zero = cuda.pinned_array(1, dtype=np.float64)
        self.zero[0] = 0.0
        self.log = []

    def sample(self, u, rhs, h2, grid, block):
        self.dev.copy_to_device(self.zero, stream=self.stream)
        residual[grid, block, self.stream](u, rhs, h2, self.dev)
        self.dev.copy_to_host(self.host, stream=self.stream)

    def collect(self):
        self.stream.synchronize()
        self.log.append(float(self.host[0]))
        return self.log[-1]


class Poisson:
    def __init__(self, n):
        self.n = n
        self.h2 = 1.0 / (n - 1) ** 2
        self.work = cuda.stream()
        yy, xx = np.mgrid[0:1:n * 1j, 0:1:n * 1j]
        self.rhs = cuda.to_device(np.sin(np.pi * xx) * np.sin(np.pi * yy))
        self.u = cuda.to_device(np.zeros((n, n)))
        self.block = (16, 16)
        g = (n + 15) // 16
        self.grid = (g, g)
        self.monitor = Monitor()

    def relax(self, sweeps):
        for _ in range(sweeps):
            for colour in (0, 1):
                sweep[self.grid, self.block, self.work](self.u, self.rhs, self.h2, colour)

    def boundary(self, value):
        pin_edges[(self.n + 127) // 128, 128](self.u, value)

    def cycle(self, sweeps):
        self.relax(sweeps)
        self.boundary(0.0)
        self.monitor.sample(self.u, self.rhs, self.h2, self.grid, self.block)
        value = self.monitor.collect()
        return value

    def solution(self):
        return self.u.copy_to_host()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n", type=int, default=257)
    ap.add_argument("--cycles", type=int, default=20)
    ap.add_argument("--sweeps", type=int, default=200)
    args = ap.parse_args()
    solver = Poisson(args.n)
    solver.boundary(0.0)
    for c in range(args.cycles):
        r = solver.cycle(args.sweeps)
        if c % 5 == 0:
            print(c, r)
    print("min", float(solver.solution().min()))


if __name__ == "__main__":
    main()
