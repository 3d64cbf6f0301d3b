"""Particle transport with Numba: a mapped counter tells the host how many particles are alive."""
import math

import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

THREADS = 256


@cuda.jit
def transport(pos, energy, alive, rng, length, loss):
    i = cuda.grid(1)
    if i >= pos.shape[0] or energy[i] <= 0.0:
        return
    for _ in range(64):
        step = -math.log(xoroshiro128p_uniform_float32(rng, i) + 1e-7)
        direction = 2.0 * xoroshiro128p_uniform_float32(rng, i) - 1.0
        pos[i] += step * direction
        energy[i] -= loss * step
        if energy[i] <= 0.0 or abs(pos[i]) > length:
            energy[i] = 0.0
            break
    if energy[i] > 0.0:
        cuda.atomic.add(alive, 0, 1)


@cuda.jit
def tally(pos, energy, hist, length):
    i = cuda.grid(1)
    if i < pos.shape[0] and energy[i] > 0.0:
        bin_id = int((pos[i] / length * 0.5 + 0.5) * hist.shape[0])
        if 0 <= bin_id < hist.shape[0]:
            cuda.atomic.add(hist, bin_id, energy[i])


class Simulation:
    def __init__(self, particles, bins=512, length=50.0, loss=0.01, seed=7):
        self.n = particles
        self.length = length
        self.loss = loss
        self.stream = cuda.stream()
        self.pos = cuda.to_device(np.zeros(particles, np.float32), stream=self.stream)
        self.energy = cuda.to_device(np.ones(particles, np.float32), stream=self.stream)
        self.hist = cuda.to_device(np.zeros(bins, np.float32), stream=self.stream)
        self.alive = cuda.mapped_array(1, dtype=np.int32)
        self.rng = create_xoroshiro128p_states(particles, seed=seed, stream=self.stream)
        self.stream.synchronize()

    @property
    def blocks(self):
        return (self.n + THREADS - 1) // THREADS

    def step(self):
        self.alive[0] = 0
        transport[self.blocks, THREADS, self.stream](
            self.pos, self.energy, self.alive, self.rng, self.length, self.loss
        )
        tally[self.blocks, THREADS, self.stream](
            self.pos, self.energy, self.hist, self.length
        )
        return int(self.alive[0])

    def run(self, max_steps=1000, min_alive=1):
        steps = 0
        while steps < max_steps:
            steps += 1
            if self.step() < min_alive:
                break
        return steps, self.hist.copy_to_host(stream=self.stream)


def main():
    sim = Simulation(1 << 20)
    steps, hist = sim.run()
    sim.stream.synchronize()
    print(steps, float(hist.sum()))


if __name__ == "__main__":
    main()
