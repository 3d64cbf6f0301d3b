import cupy as cp
from numba import cuda


class Lane:
    """One CUDA stream as seen by Numba and by CuPy."""

    def __init__(self, name):
        self.name = name
        self._numba = cuda.stream()
        self._cupy = cp.cuda.ExternalStream(self._numba.handle.value)

    @property
    def for_kernels(self):
        return self._numba

    @property
    def for_arrays(self):
        return self._cupy

    def wait(self):
        self._numba.synchronize()


_lanes = {}


def lane(name):
    if name not in _lanes:
        _lanes[name] = Lane(name)
    return _lanes[name]
