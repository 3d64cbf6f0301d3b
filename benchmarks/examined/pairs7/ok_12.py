"""Particle push with managed memory; diagnostics on the host between batches."""
import math

import numpy as np
from numba import cuda

N = 1 << 18


@cuda.jit
def push(x, v, dt, n):
    i = cuda.grid(1)
    if i < n:
        v[i] -= dt * math.sin(x[i])
        x[i] += dt * v[i]


class Plasma:
    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.x = cuda.managed_array(N, dtype=np.float64)
        self.v = cuda.managed_array(N, dtype=np.float64)
        self.x[:] = rng.uniform(0, 2 * np.pi, N)
        self.v[:] = rng.normal(0, 1, N)
        self.stream = cuda.stream()
        self.dirty = False

    def push(self, steps, dt=0.01):
        for _ in range(steps):
            push[(N + 255) // 256, 256, self.stream](self.x, self.v, dt, N)
        self.dirty = True

    def _settle(self):
        if self.dirty:
            self.stream.synchronize()
            self.dirty = False

    @property
    def kinetic(self):
        self._settle()
        return 0.5 * float(np.dot(self.v, self.v))

    @property
    def potential(self):
        self._settle()
        return float(np.sum(1.0 - np.cos(self.x)))

    def kick(self, amplitude):
        self._settle()
        self.v += amplitude * np.sign(self.v)


def main():
    plasma = Plasma()
    for batch in range(10):
        plasma.push(50)
        print(batch, plasma.kinetic + plasma.potential)
        if batch == 5:
            plasma.kick(0.1)


if __name__ == "__main__":
    main()
