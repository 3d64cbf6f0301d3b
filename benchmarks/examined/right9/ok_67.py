import ctypes

import cupy as cp
import numpy as np


class ManagedArray:
    """One allocation visible from the host and from the device."""

    def __init__(self, shape, dtype, pool):
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.device = cp.ndarray(shape, dtype=dtype, memptr=pool.malloc(nbytes))
        raw = (ctypes.c_char * nbytes).from_address(self.device.data.ptr)
        self.host = np.frombuffer(raw, dtype=dtype).reshape(shape)

    def prefetch(self, where, stream):
        cp.cuda.runtime.memPrefetchAsync(self.device.data.ptr, self.device.nbytes, where, stream.ptr)


class Alternating:
    """Host smoothing and device relaxation take turns on managed memory."""

    def __init__(self, n):
        self.pool = cp.cuda.MemoryPool(cp.cuda.malloc_managed)
        self.field = ManagedArray((n, n), np.float32, self.pool)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.where = cp.cuda.Device().id

    def device_phase(self, sweeps):
        self.field.prefetch(self.where, self.stream)
        with self.stream:
            u = self.field.device
            for _ in range(sweeps):
                u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        self.field.prefetch(-1, self.stream)
        self.stream.synchronize()

    def host_phase(self, k):
        h = self.field.host
        h[0] = np.sin(np.linspace(0, 3.14, h.shape[1]) * (k + 1))
        return float(h.mean())


def main():
    alt = Alternating(1024)
    alt.field.host[...] = 0
    for k in range(10):
        print(k, alt.host_phase(k))
        alt.device_phase(20)


if __name__ == "__main__":
    main()
