"""Particle binning with numba kernels launched on cuda.core streams."""
import math

import numpy as np
from cuda.core import Device
from numba import cuda

THREADS = 256


@cuda.jit
def drift(pos, vel, dt, box):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        for k in range(3):
            x = pos[i, k] + vel[i, k] * dt
            pos[i, k] = x - box * math.floor(x / box)


@cuda.jit
def bin_counts(pos, box, bins, counts):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        b = int(pos[i, 0] / box * bins)
        if b >= bins:
            b = bins - 1
        cuda.atomic.add(counts, b, 1)


@cuda.jit
def clear(counts):
    i = cuda.grid(1)
    if i < counts.shape[0]:
        counts[i] = 0


def blocks_for(n):
    return (n + THREADS - 1) // THREADS


class ParticleBox:
    def __init__(self, n, box=10.0, bins=128, seed=0):
        self.dev = Device()
        self.dev.set_current()
        self.stream = self.dev.create_stream()
        rng = np.random.default_rng(seed)
        self.n, self.box, self.bins = n, box, bins
        self.pos = cuda.to_device(rng.uniform(0, box, (n, 3)), stream=self.stream)
        self.vel = cuda.to_device(rng.standard_normal((n, 3)), stream=self.stream)
        self.counts = cuda.device_array(bins, dtype=np.int32)

    def advance(self, steps, dt=0.01):
        grid = blocks_for(self.n)
        for _ in range(steps):
            drift[grid, THREADS, self.stream](self.pos, self.vel, dt, self.box)

    def histogram(self):
        clear[blocks_for(self.bins), THREADS, self.stream](self.counts)
        bin_counts[blocks_for(self.n), THREADS, self.stream](
            self.pos, self.box, self.bins, self.counts
        )
        return self.counts.copy_to_host()

    def close(self):
        self.stream.sync()


class DensityMonitor:
    def __init__(self, box):
        self.box = box
        self.history = []

    def sample(self):
        counts = self.box.histogram()
        self.history.append(counts / counts.sum())

    def drift_score(self):
        first, last = self.history[0], self.history[-1]
        return float(np.abs(first - last).sum())


def main():
    box = ParticleBox(2_000_000)
    monitor = DensityMonitor(box)
    for _ in range(10):
        box.advance(50)
        monitor.sample()
    box.close()
    print("score", monitor.drift_score())


if __name__ == "__main__":
    main()
