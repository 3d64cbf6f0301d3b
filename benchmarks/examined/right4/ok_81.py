import ctypes
from contextlib import contextmanager

import cupy as cp
import numpy as np


def managed(shape, dtype):
    n = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = cp.cuda.malloc_managed(n)
    return cp.ndarray(shape, dtype, memory), n


class ManagedField:
    """One allocation seen by host and device in turns."""

    def __init__(self, shape, dtype=np.float64):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.array, self.nbytes = managed(shape, dtype)
        raw = (ctypes.c_byte * self.nbytes).from_address(self.array.data.ptr)
        self._view = np.frombuffer(raw, dtype=dtype).reshape(shape)
        self.device_id = cp.cuda.runtime.getDevice()

    @contextmanager
    def host(self):
        cp.cuda.runtime.memPrefetchAsync(self.array.data.ptr, self.nbytes, -1, self.stream.ptr)
        self.stream.synchronize()
        yield self._view

    @contextmanager
    def device(self):
        cp.cuda.runtime.memPrefetchAsync(self.array.data.ptr, self.nbytes, self.device_id, self.stream.ptr)
        with self.stream:
            yield self.array


class BoundaryDriver:
    def __init__(self, field, period):
        self.field, self.period = field, period

    def inflow(self, t):
        with self.field.host() as u:
            u[0, :] = np.sin(2 * np.pi * t / self.period)
            return float(u[-1].mean())

    def advect(self, substeps):
        with self.field.device() as u:
            for _ in range(substeps):
                u[1:] += 0.4 * (u[:-1] - u[1:])


def main(steps=50):
    field = ManagedField((256, 1024))
    with field.host() as u:
        u[...] = 0.0
    driver = BoundaryDriver(field, 25)
    outflow = []
    for t in range(steps):
        outflow.append(driver.inflow(t))
        driver.advect(16)
    with field.host() as u:
        return outflow, float(np.abs(u).max())


if __name__ == "__main__":
    print(main()[1])
