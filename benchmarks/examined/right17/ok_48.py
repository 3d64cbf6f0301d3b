"""Batched saxpy over pooled temporaries with deferred return to the pool."""
import collections
from typing import Deque, List, Tuple

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

MODULE = SourceModule("""
__global__ void saxpy(const float *x, float *y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
""")
SAXPY = MODULE.get_function("saxpy")


class PooledAccumulator:
    def __init__(self, length: int, keep: int = 16):
        self.length = length
        self.keep = keep
        self.device_pool = DeviceMemoryPool()
        self.host_pool = PageLockedMemoryPool()
        self.copy = drv.Stream()
        self.work = drv.Stream()
        self.total = self.device_pool.allocate(length * 4)
        drv.memset_d32_async(int(self.total), 0, length, self.work)
        self.limbo: Deque[Tuple[drv.Event, tuple]] = collections.deque()

    def _sweep(self) -> None:
        while self.limbo and self.limbo[0][0].query():
            self.limbo.popleft()
        while len(self.limbo) > self.keep:
            self.limbo[0][0].synchronize()
            self.limbo.popleft()

    def add(self, values: np.ndarray, scale: float) -> None:
        if values.shape != (self.length,):
            raise ValueError("bad shape")
        self._sweep()
        host = self.host_pool.allocate((self.length,), np.float32)
        device = self.device_pool.allocate(self.length * 4)
        host[:] = values
        moved, used = drv.Event(), drv.Event()
        try:
            drv.memcpy_htod_async(int(device), host, self.copy)
            moved.record(self.copy)
            self.work.wait_for_event(moved)
            SAXPY(device, self.total, np.float32(scale), np.int32(self.length),
                  block=(256, 1, 1), grid=((self.length + 255) // 256, 1), stream=self.work)
            used.record(self.work)
        except BaseException:
            self.copy.synchronize()
            self.work.synchronize()
            raise
        self.limbo.append((used, (host, device)))

    def value(self) -> np.ndarray:
        out = self.host_pool.allocate((self.length,), np.float32)
        drv.memcpy_dtoh_async(out, int(self.total), self.work)
        self.work.synchronize()
        self.limbo.clear()
        return np.array(out)

    def close(self) -> None:
        self.copy.synchronize()
        self.work.synchronize()
        self.limbo.clear()
        self.total.free()
        self.device_pool.stop_holding()
        self.host_pool.stop_holding()


def combine(vectors: List[np.ndarray], scales: List[float]) -> np.ndarray:
    acc = PooledAccumulator(len(vectors[0]))
    try:
        for vector, scale in zip(vectors, scales):
            acc.add(vector, scale)
        return acc.value()
    finally:
        acc.close()
