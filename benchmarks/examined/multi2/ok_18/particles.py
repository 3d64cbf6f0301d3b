import numpy as np
from numba import cuda

from kernels import drift, kick


class Particles:
    """Positions and velocities; moved on a stream of their own."""

    block = 256

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        self.n = n
        self.stream = cuda.stream()
        self.pos = cuda.to_device(rng.random((n, 3), dtype=np.float32))
        self.vel = cuda.to_device(rng.normal(0, 0.01, (n, 3)).astype(np.float32))

    @property
    def blocks(self):
        return (self.n + self.block - 1) // self.block

    def move(self, dt):
        drift[self.blocks, self.block, self.stream](self.pos, self.vel, dt)

    def push(self, counts, scale):
        kick[self.blocks, self.block, self.stream](self.pos, self.vel, counts, scale)

    @property
    def nbytes(self):
        return 2 * self.n * 3 * 4

    def __len__(self):
        return self.n

    def __repr__(self):
        return f"Particles({self.n:,}, {self.nbytes / 2 ** 20:.0f} MiB)"
