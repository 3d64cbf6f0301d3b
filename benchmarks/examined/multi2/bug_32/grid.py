import numpy as np
from numba import cuda

from kernels import TPB, blocks, dampen, scatter


class Grid:
    """A field on the device with the particles that feed it."""

    def __init__(self, cells, particles, lane=None):
        rng = np.random.default_rng(7)
        self.cells = cells
        self.lane = lane or cuda.stream()
        self.field = cuda.device_array(cells, dtype=np.float32)
        self.index = cuda.to_device(rng.integers(0, cells, particles))
        self.weight = cuda.to_device(rng.random(particles, dtype=np.float32))
        self.field.copy_to_device(np.zeros(cells, dtype=np.float32))
        self.age = 0

    def advance(self, rate=0.01):
        scatter[blocks(self.index.size), TPB, self.lane](self.field, self.index, self.weight)
        dampen[blocks(self.cells), TPB, self.lane](self.field, rate)
        self.age += 1

    @property
    def view(self):
        return self.field
