import math

import cupy as cp
import numpy as np
from numba import cuda


@cuda.jit
def lj_forces(pos, force, cutoff2):
    i = cuda.grid(1)
    n = pos.shape[0]
    if i < n:
        fx = fy = fz = 0.0
        for j in range(n):
            if j != i:
                dx = pos[i, 0] - pos[j, 0]
                dy = pos[i, 1] - pos[j, 1]
                dz = pos[i, 2] - pos[j, 2]
                r2 = dx * dx + dy * dy + dz * dz
                if r2 < cutoff2:
                    inv6 = 1.0 / (r2 * r2 * r2)
                    s = 24.0 * inv6 * (2.0 * inv6 - 1.0) / r2
                    fx += s * dx
                    fy += s * dy
                    fz += s * dz
        force[i, 0], force[i, 1], force[i, 2] = fx, fy, fz


class Simulation:
    def __init__(self, side):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.lane = cuda.external_stream(self.stream.ptr)
        axis = np.arange(side) * 1.2
        grid = np.stack(np.meshgrid(axis, axis, axis), -1).reshape(-1, 3)
        with self.stream:
            self.pos = cp.asarray(grid)
            self.vel = cp.zeros_like(self.pos)
            self.force = cp.zeros_like(self.pos)
        self.pos_view = cuda.as_cuda_array(self.pos, sync=False)
        self.force_view = cuda.as_cuda_array(self.force, sync=False)

    def step(self, dt):
        n = self.pos.shape[0]
        lj_forces[math.ceil(n / 128), 128, self.lane](self.pos_view, self.force_view, 6.25)
        with self.stream:
            self.vel += dt * self.force
            self.pos += dt * self.vel

    def energy(self):
        with self.stream:
            return float(0.5 * cp.square(self.vel).sum())


if __name__ == "__main__":
    sim = Simulation(8)
    for k in range(100):
        sim.step(1e-3)
        if k % 25 == 0:
            print(k, sim.energy())
