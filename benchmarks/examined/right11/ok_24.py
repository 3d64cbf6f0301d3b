from __future__ import annotations

import ctypes

import cupy as cp
import numpy as np
from cupy.cuda import runtime

CPU_DEVICE = -1


class ManagedArray:
    """A float32 vector both processors address, moved by explicit prefetch."""

    def __init__(self, n: int, device: int = 0) -> None:
        self.n, self.device = n, device
        self._mem = cp.cuda.malloc_managed(4 * n)
        self.gpu = cp.ndarray((n,), dtype=cp.float32, memptr=self._mem)
        self._host = np.ctypeslib.as_array((ctypes.c_float * n).from_address(self._mem.ptr))
        self.stream = cp.cuda.Stream(non_blocking=True)

    def to_device(self) -> cp.ndarray:
        runtime.memPrefetchAsync(self._mem.ptr, 4 * self.n, self.device, self.stream.ptr)
        return self.gpu

    @property
    def host(self) -> np.ndarray:
        runtime.memPrefetchAsync(self._mem.ptr, 4 * self.n, CPU_DEVICE, self.stream.ptr)
        self.stream.synchronize()
        return self._host


class Particles:
    def __init__(self, n: int) -> None:
        self.mass = ManagedArray(n)
        self.mass.host[:] = 1.0
        self._decay = cp.ElementwiseKernel(
            "float32 rate, raw float32 seed", "float32 m", "m *= 1.0f - rate * seed[i % 97]", "decay"
        )
        with self.mass.stream:
            self.seed = cp.linspace(0, 1, 97, dtype=cp.float32)

    def advance(self, steps: int, rate: float) -> None:
        m = self.mass.to_device()
        with self.mass.stream:
            for _ in range(steps):
                self._decay(np.float32(rate), self.seed, m)

    def split_heavy(self, limit: float) -> int:
        host = self.mass.host
        heavy = np.flatnonzero(host > limit)
        host[heavy] *= 0.5
        return heavy.size


def main() -> None:
    sim = Particles(1 << 22)
    for epoch in range(10):
        sim.advance(50, 1e-3)
        print(epoch, sim.split_heavy(0.97))
    print(float(sim.mass.host.sum()))


if __name__ == "__main__":
    main()
