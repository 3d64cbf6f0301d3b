"""Particle push and field gather with Numba; field solve on the default stream, pushes on two species streams."""
import math
import numpy as np
from numba import cuda


@cuda.jit
def push(x, v, e, dx, qm_dt):
    i = cuda.grid(1)
    if i < x.size:
        cell = int(x[i] / dx) % e.size
        v[i] += qm_dt * e[cell]
        x[i] = (x[i] + v[i]) % (e.size * dx)


@cuda.jit
def deposit(x, rho, dx, weight):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(rho, int(x[i] / dx) % rho.size, weight)


@cuda.jit
def relax(rho, e):
    i = cuda.grid(1)
    if i < e.size:
        left = rho[(i - 1) % rho.size]
        right = rho[(i + 1) % rho.size]
        e[i] = 0.9 * e[i] + 0.5 * (right - left)


@cuda.jit
def clear(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = 0.0


class Species:
    def __init__(self, n, qm, rng, length):
        self.x = cuda.to_device(rng.random(n) * length)
        self.v = cuda.to_device(rng.standard_normal(n) * 0.01)
        self.qm = qm
        self.stream = cuda.stream()
        self.blocks = math.ceil(n / 256)


class PIC1D:
    def __init__(self, cells=4096, n=1_000_000, dx=1.0):
        rng = np.random.default_rng(3)
        self.dx = dx
        self.e = cuda.to_device(np.zeros(cells))
        self.rho = cuda.to_device(np.zeros(cells))
        self.species = [Species(n, -1.0, rng, cells * dx), Species(n, 1e-3, rng, cells * dx)]
        self.grid = math.ceil(cells / 256)

    def step(self, dt=0.1):
        clear[self.grid, 256](self.rho)
        for s in self.species:
            push[s.blocks, 256, s.stream](s.x, s.v, self.e, self.dx, s.qm * dt)
            deposit[s.blocks, 256, s.stream](s.x, self.rho, self.dx, math.copysign(1e-3, s.qm))
        relax[self.grid, 256](self.rho, self.e)

    def field_energy(self):
        e = self.e.copy_to_host()
        return 0.5 * float(e @ e)


if __name__ == "__main__":
    sim = PIC1D()
    for n in range(200):
        sim.step()
        if n % 50 == 0:
            print(n, sim.field_energy())
