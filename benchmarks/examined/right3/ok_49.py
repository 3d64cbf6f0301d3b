"""Managed arrays shared by host code and CuPy kernels."""
import ctypes

import cupy as cp
import numpy as np


class ManagedArray:
    def __init__(self, n: int, pool: cp.cuda.MemoryPool):
        mem = pool.malloc(n * 4)
        self.dev = cp.ndarray((n,), dtype=cp.float32, memptr=mem)
        buf = (ctypes.c_float * n).from_address(mem.ptr)
        self._host = np.ctypeslib.as_array(buf)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def to_device(self) -> cp.ndarray:
        device = cp.cuda.runtime.getDevice()
        cp.cuda.runtime.memPrefetchAsync(self.dev.data.ptr, self.dev.nbytes, device, self.stream.ptr)
        return self.dev

    @property
    def host(self) -> np.ndarray:
        """Host view of the array."""
        cp.cuda.runtime.memPrefetchAsync(self.dev.data.ptr, self.dev.nbytes, -1, self.stream.ptr)
        self.stream.synchronize()
        return self._host


_decay = cp.ElementwiseKernel("T k", "raw T x", "x[i] = x[i] * k + T(1)", "decay_raw")


class Reservoir:
    def __init__(self, n: int):
        self.pool = cp.cuda.MemoryPool(cp.cuda.malloc_managed)
        self.state = ManagedArray(n, self.pool)
        self.state.host[:] = 0

    def run_on_device(self, rounds: int) -> None:
        x = self.state.to_device()
        with self.state.stream:
            for _ in range(rounds):
                _decay(np.float32(0.9), x, size=x.size)

    def patch_on_host(self, index: np.ndarray, value: float) -> float:
        view = self.state.host
        view[index] = value
        return float(view.mean())


def main():
    res = Reservoir(1 << 20)
    rng = np.random.default_rng(4)
    for _ in range(20):
        res.run_on_device(10)
        mean = res.patch_on_host(rng.integers(0, 1 << 20, 100), 0.0)
        print(mean)


if __name__ == "__main__":
    main()
