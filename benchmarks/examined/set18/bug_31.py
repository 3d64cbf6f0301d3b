import math

import numpy as np
from numba import cuda

OVERFLOW, ESCAPED, MOVED = 0, 1, 2


@cuda.jit
def push(pos, vel, field, dt, length):
    i = cuda.grid(1)
    if i < pos.size:
        cell = int(pos[i] / length * field.size) % field.size
        vel[i] += dt * field[cell]
        pos[i] += dt * vel[i]


@cuda.jit
def classify(pos, cell_count, flags, capacity, length):
    i = cuda.grid(1)
    if i < pos.size:
        x = pos[i]
        if x < 0.0 or x >= length:
            cuda.atomic.add(flags, ESCAPED, 1)
            pos[i] = x - length * math.floor(x / length)
        cell = int(pos[i] / length * cell_count.size) % cell_count.size
        if cuda.atomic.add(cell_count, cell, 1) >= capacity:
            cuda.atomic.add(flags, OVERFLOW, 1)
        cuda.atomic.add(flags, MOVED, 1)


@cuda.jit
def clear(cell_count):
    i = cuda.grid(1)
    if i < cell_count.size:
        cell_count[i] = 0


class ParticleMover:
    def __init__(self, pos, vel, field, length, capacity):
        self.length = length
        self.capacity = capacity
        self.stream = cuda.stream()
        self.pos = cuda.to_device(pos)
        self.vel = cuda.to_device(vel)
        self.field = cuda.to_device(field)
        self.cell_count = cuda.device_array(field.size, dtype=np.int32)
        self.flags = cuda.mapped_array(3, dtype=np.int32, stream=self.stream)
        self.threads = 256
        self.blocks = (pos.size + self.threads - 1) // self.threads
        self.escaped = 0

    def step(self, dt):
        self.flags[:] = 0
        cell_blocks = (self.cell_count.size + self.threads - 1) // self.threads
        clear[cell_blocks, self.threads, self.stream](self.cell_count)
        push[self.blocks, self.threads, self.stream](
            self.pos, self.vel, self.field, dt, self.length
        )
        classify[self.blocks, self.threads, self.stream](
            self.pos, self.cell_count, self.flags, self.capacity, self.length
        )
        self.escaped += int(self.flags[ESCAPED])
        return int(self.flags[OVERFLOW])

    def rebalance(self):
        self.capacity = int(1.5 * self.capacity)

    def positions(self):
        self.stream.synchronize()
        return self.pos.copy_to_host()


def run(n=1 << 20, cells=4096, steps=200, dt=1e-3, length=1.0):
    rng = np.random.default_rng(7)
    pos = rng.random(n) * length
    vel = rng.normal(0.0, 0.5, n)
    field = np.sin(2 * np.pi * np.arange(cells) / cells)
    mover = ParticleMover(pos, vel, field, length, capacity=int(1.2 * n / cells))
    for step in range(steps):
        overflow = mover.step(dt)
        if overflow > 0:
            mover.rebalance()
            print("step", step, "overflow", overflow, "capacity", mover.capacity)
    final = mover.positions()
    print("escaped", mover.escaped, "mean", final.mean())


if __name__ == "__main__":
    run()
