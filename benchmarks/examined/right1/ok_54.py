"""Unified memory shared by a host-side edit and a GPU solver."""
import ctypes
from contextlib import contextmanager

import cupy as cp
import numpy as np

CPU_DEVICE = -1


class ManagedArray:
    def __init__(self, n):
        self.nbytes = n * 4
        self._mem = cp.cuda.malloc_managed(self.nbytes)
        self._device = cp.ndarray(n, cp.float32, memptr=self._mem)
        raw = (ctypes.c_char * self.nbytes).from_address(self._mem.ptr)
        self.host = np.frombuffer(raw, np.float32)

    def _prefetch(self, where, stream):
        cp.cuda.runtime.memPrefetchAsync(self._mem.ptr, self.nbytes, where, stream.ptr)

    @contextmanager
    def on_device(self, stream, device=0):
        self._prefetch(device, stream)
        try:
            with stream:
                yield self._device
            self._prefetch(CPU_DEVICE, stream)
        finally:
            stream.synchronize()


def relax(u, sweeps):
    for _ in range(sweeps):
        inner = 0.5 * (u[:-2] + u[2:])
        u[1:-1] = inner


def solve(n=1 << 20, rounds=10, sweeps=20):
    u = ManagedArray(n)
    stream = cp.cuda.Stream(non_blocking=True)
    u.host[:] = 0
    for k in range(rounds):
        u.host[0] = np.sin(0.1 * k)
        u.host[-1] = -u.host[0]
        with u.on_device(stream) as d_u:
            relax(d_u, sweeps)
        print(k, u.host[:8].sum(), u.host[-8:].sum())
    return u.host.copy()


if __name__ == "__main__":
    print(np.abs(solve()).max())
