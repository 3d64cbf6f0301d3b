import ctypes

import numpy as np
from cuda.bindings import driver as cu

from gpu import check, new_stream


class Probe:
    """Collects pictures of a field in page-locked memory as the run goes on."""

    def __init__(self, field, capacity):
        self.field = field
        self.capacity = capacity
        self.stream = new_stream()
        self.base = check(cu.cuMemAllocHost(capacity * field.nbytes))
        self.taken = 0

    @property
    def full(self):
        return self.taken == self.capacity

    def sample(self, written):
        """Copy the front plane out once `written` has happened."""
        check(cu.cuStreamWaitEvent(self.stream, written, 0))
        place = int(self.base) + self.taken * self.field.nbytes
        check(cu.cuMemcpyDtoHAsync(place, self.field.front, self.field.nbytes, self.stream))
        self.taken += 1

    def pictures(self):
        check(cu.cuStreamSynchronize(self.stream))
        n = self.field.n
        raw = (ctypes.c_float * (self.taken * n * n)).from_address(int(self.base))
        return np.ctypeslib.as_array(raw).reshape(self.taken, n, n)

    @property
    def left(self):
        return self.capacity - self.taken


def spacing(steps, budget_bytes, field):
    """Every how many steps a picture can be kept within the budget."""
    fit = max(1, budget_bytes // field.nbytes)
    return max(1, -(-steps // fit))
