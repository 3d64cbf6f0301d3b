import numpy as np
from cuda.bindings import driver as cu

from gpu import check


class Field:
    """A temperature plane held twice: what is read and what is written."""

    def __init__(self, n):
        self.n = n
        self.nbytes = n * n * 4
        self.front = check(cu.cuMemAlloc(self.nbytes))
        self.back = check(cu.cuMemAlloc(self.nbytes))
        start = np.zeros((n, n), np.float32)
        start[n // 4:n // 2, n // 4:n // 2] = 100.0
        for place in (self.front, self.back):
            check(cu.cuMemcpyHtoD(place, start.ctypes.data, self.nbytes))
        check(cu.cuCtxSynchronize())

    def swap(self):
        self.front, self.back = self.back, self.front

    def __repr__(self):
        return f"Field({self.n}x{self.n}, {2 * self.nbytes / 2 ** 20:.0f} MiB)"

    @property
    def interior(self):
        return (self.n - 2) ** 2

    def stable_rate(self):
        """Largest diffusion number of an explicit step in two dimensions."""
        return 0.25
