"""Iterative least squares with RMM-owned scalars feeding CuPy kernels."""
from typing import List

import cupy as cp
import cupyx
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

_AXPBY = cp.RawKernel(
    r"""
extern "C" __global__
void axpby(const double* alpha, const double* x, const double* beta, double* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = alpha[0] * x[i] + beta[0] * y[i];
}
""",
    "axpby",
)


def device_scalar(value: float, stream: Stream) -> rmm.DeviceBuffer:
    host = cupyx.empty_pinned(1, dtype=np.float64)
    host[0] = value
    return rmm.DeviceBuffer(ptr=host.ctypes.data, size=host.nbytes, stream=stream)


def as_pointer(buf: rmm.DeviceBuffer) -> cp.cuda.MemoryPointer:
    mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
    return cp.cuda.MemoryPointer(mem, 0)


class LandweberSolver:
    def __init__(self, a: cp.ndarray, b: cp.ndarray, cu_stream: cp.cuda.Stream):
        self.a, self.b = a, b
        self.cu_stream = cu_stream
        self.stream = Stream(cu_stream)
        with cu_stream:
            self.x = cp.zeros(a.shape[1], dtype=cp.float64)
            self.residual = cp.zeros(a.shape[0], dtype=cp.float64)
            self.step = cp.zeros(a.shape[1], dtype=cp.float64)
        self._alive: List[rmm.DeviceBuffer] = []

    def _axpby(self, alpha: float, x: cp.ndarray, beta: float, y: cp.ndarray) -> None:
        d_alpha = device_scalar(alpha, self.stream)
        d_beta = device_scalar(beta, self.stream)
        self._alive += [d_alpha, d_beta]
        n = y.size
        _AXPBY(
            ((n + 255) // 256,),
            (256,),
            (
                cp.ndarray(1, cp.float64, as_pointer(d_alpha)),
                x,
                cp.ndarray(1, cp.float64, as_pointer(d_beta)),
                y,
                np.int32(n),
            ),
        )

    def iterate(self, omega: float, damping: float) -> None:
        with self.cu_stream:
            cp.matmul(self.a, self.x, out=self.residual)
            self._axpby(1.0, self.b, -1.0, self.residual)
            cp.matmul(self.a.T, self.residual, out=self.step)
            self._axpby(omega, self.step, damping, self.x)

    def solve(self, iterations: int) -> np.ndarray:
        for k in range(iterations):
            self.iterate(1e-4 / (1 + k), 0.999)
            if k % 32 == 31:
                self.cu_stream.synchronize()
                self._alive.clear()
        result = self.x.get(stream=self.cu_stream)
        self._alive.clear()
        return result


def main() -> None:
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        a = cp.random.rand(8192, 4096)
        b = cp.random.rand(8192)
    stream.synchronize()
    x = LandweberSolver(a, b, stream).solve(256)
    print(np.linalg.norm(x))


if __name__ == "__main__":
    main()
