"""Managed memory shared between numpy and a kernel, with explicit prefetches."""
import ctypes

import cupy as cp
import numpy as np

_relax = cp.RawKernel(
    r"""
extern "C" __global__ void relax(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) b[i] = 0.5f * a[i] + 0.25f * (a[i - 1] + a[i + 1]);
}
""",
    "relax",
)
CPU_DEVICE = -1


class ManagedVector:
    def __init__(self, n):
        self.memory = cp.cuda.malloc_managed(n * 4)
        self.device = cp.ndarray((n,), cp.float32, memptr=self.memory)
        raw = (ctypes.c_float * n).from_address(self.memory.ptr)
        self.host = np.ctypeslib.as_array(raw)

    def prefetch(self, where, stream):
        cp.cuda.runtime.memPrefetchAsync(self.memory.ptr, self.device.nbytes, where, stream.ptr)


class Relaxer:
    def __init__(self, n):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.device_id = cp.cuda.runtime.getDevice()
        self.front, self.back = ManagedVector(n), ManagedVector(n)
        self.n = n

    def set_boundary(self, left, right):
        for v in (self.front, self.back):
            v.host[0], v.host[-1] = left, right

    def run(self, sweeps):
        for v in (self.front, self.back):
            v.prefetch(self.device_id, self.stream)
        grid = ((self.n + 255) // 256,)
        with self.stream:
            for _ in range(sweeps):
                _relax(grid, (256,), (self.front.device, self.back.device, cp.int32(self.n)))
                self.front, self.back = self.back, self.front
        for v in (self.front, self.back):
            v.prefetch(CPU_DEVICE, self.stream)
        self.stream.synchronize()
        return float(self.front.host.mean())


def main():
    relaxer = Relaxer(1 << 16)
    for v in (relaxer.front, relaxer.back):
        v.host[:] = 0.0
    for left in np.linspace(0.0, 1.0, 11):
        relaxer.set_boundary(left, 1.0 - left)
        print(left, relaxer.run(200))


if __name__ == "__main__":
    main()
