import numpy as np
from numba import cuda

from kernels import bin_counts, clear


class Density:
    def __init__(self, bins):
        self.bins = bins
        self.counts = cuda.device_array((bins, bins), np.int32)

    def rebuild(self, particles):
        side = (self.bins + 15) // 16
        clear[(side, side), (16, 16)](self.counts)
        bin_counts[particles.blocks, particles.block](particles.pos, self.counts)
        return self.counts

    def contrast(self):
        host = self.counts.copy_to_host()
        return float(host.std() / host.mean())

    @property
    def cell(self):
        return 1.0 / self.bins

    def expected(self, n):
        """Mean count of a bin for n particles spread evenly."""
        return n / self.bins ** 2

    def shot_noise(self, n):
        return self.expected(n) ** -0.5
