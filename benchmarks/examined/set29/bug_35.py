"""N-body leap-frog on unified memory; the energy monitor runs on the host."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def accelerate(pos, acc, eps2):
    i = cuda.grid(1)
    n = pos.shape[0]
    if i >= n:
        return
    ax = ay = az = 0.0
    for j in range(n):
        dx = pos[j, 0] - pos[i, 0]
        dy = pos[j, 1] - pos[i, 1]
        dz = pos[j, 2] - pos[i, 2]
        r2 = dx * dx + dy * dy + dz * dz + eps2
        w = 1.0 / (r2 * math.sqrt(r2))
        ax += w * dx
        ay += w * dy
        az += w * dz
    acc[i, 0] = ax
    acc[i, 1] = ay
    acc[i, 2] = az


@cuda.jit
def kick_drift(pos, vel, acc, dt):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        for k in range(3):
            vel[i, k] += dt * acc[i, k]
            pos[i, k] += dt * vel[i, k]


class Bodies:
    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        self.pos = cuda.managed_array((n, 3), dtype=np.float64)
        self.vel = cuda.managed_array((n, 3), dtype=np.float64)
        self.acc = cuda.managed_array((n, 3), dtype=np.float64)
        self.pos[:] = rng.normal(size=(n, 3))
        self.vel[:] = 0.0
        self.acc[:] = 0.0


class Monitor:
    def __init__(self, bodies):
        self.bodies = bodies
        self.history = []

    def sample(self, step):
        v = np.asarray(self.bodies.vel)
        self.history.append((step, 0.5 * float(np.einsum("ij,ij->", v, v)) / len(v)))


class Simulation:
    def __init__(self, n=8192, dt=1e-4):
        self.bodies = Bodies(n)
        self.monitor = Monitor(self.bodies)
        self.dt = dt
        self.grid = (n + 127) // 128
        self.stream = cuda.stream()

    def step(self):
        b = self.bodies
        accelerate[self.grid, 128, self.stream](b.pos, b.acc, 1e-3)
        kick_drift[self.grid, 128, self.stream](b.pos, b.vel, b.acc, self.dt)

    def run(self, steps, every=10):
        for k in range(1, steps + 1):
            self.step()
            if k % every == 0:
                self.monitor.sample(k)
        self.stream.synchronize()
        return self.monitor.history


if __name__ == "__main__":
    for step, energy in Simulation().run(100):
        print(step, energy)
