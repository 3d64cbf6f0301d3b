"""Broad-phase sphere overlap test; overlap flags live in mapped host memory."""
import math

import numpy as np
from numba import cuda

THREADS = 128


@cuda.jit
def advance(pos, vel, dt, box):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        for k in range(3):
            p = pos[i, k] + vel[i, k] * dt
            if p < 0.0 or p > box:
                vel[i, k] = -vel[i, k]
            else:
                pos[i, k] = p


@cuda.jit
def overlaps(pos, radius, flags, count):
    i = cuda.grid(1)
    n = pos.shape[0]
    if i >= n:
        return
    hit = 0
    for j in range(n):
        if j != i:
            dx = pos[i, 0] - pos[j, 0]
            dy = pos[i, 1] - pos[j, 1]
            dz = pos[i, 2] - pos[j, 2]
            if dx * dx + dy * dy + dz * dz < 4.0 * radius * radius:
                hit = 1
    flags[i] = hit
    if hit:
        cuda.atomic.add(count, 0, 1)


class Broadphase:
    def __init__(self, n, radius, box, seed=7):
        rng = np.random.default_rng(seed)
        self.n = n
        self.radius = radius
        self.box = box
        self.stream = cuda.stream()
        self.pos = cuda.to_device(rng.uniform(0, box, (n, 3)).astype(np.float32), stream=self.stream)
        self.vel = cuda.to_device(rng.normal(0, 1, (n, 3)).astype(np.float32), stream=self.stream)
        self.flags = cuda.mapped_array(n, dtype=np.int32, stream=self.stream)
        self.count = cuda.mapped_array(1, dtype=np.int32, stream=self.stream)
        self.grid = math.ceil(n / THREADS)

    def step(self, dt):
        self.count[0] = 0
        advance[self.grid, THREADS, self.stream](self.pos, self.vel, dt, self.box)
        overlaps[self.grid, THREADS, self.stream](self.pos, self.radius, self.flags, self.count)

    def colliding(self):
        total = int(self.count[0])
        if total == 0:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.flags)


class Report:
    def __init__(self):
        self.rows = []

    def add(self, step, ids):
        self.rows.append((step, ids.size, int(ids[0]) if ids.size else -1))

    def show(self):
        for step, n, first in self.rows[-5:]:
            print(f"step {step:4d}: {n} overlapping, first id {first}")


def main(n=8192, steps=200):
    sim = Broadphase(n, radius=0.05, box=10.0)
    report = Report()
    for s in range(steps):
        sim.step(dt=0.01)
        if s % 10 == 0:
            report.add(s, sim.colliding())
    cuda.synchronize()
    report.show()


if __name__ == "__main__":
    main()
