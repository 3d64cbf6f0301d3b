"""Explicit heat solver with parameters in managed memory."""
import ctypes
import numpy as np
import cupy as cp

_managed = cp.cuda.MemoryPool(cp.cuda.malloc_managed)

_step = cp.RawKernel(r'''
extern "C" __global__
void heat_step(const float* u, float* v, const float* p, int n, int sub) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i <= 0 || i >= n - 1) return;
    float acc = u[i];
    for (int s = 0; s < sub; ++s)
        acc += p[0] * (u[i - 1] - 2.f * acc + u[i + 1]) + p[1];
    v[i] = acc;
}''', 'heat_step')


class ManagedBuffer:
    """One allocation seen as a device array and as a host array."""

    def __init__(self, n, dtype=np.float32):
        nbytes = n * np.dtype(dtype).itemsize
        memptr = _managed.malloc(nbytes)
        self.device = cp.ndarray((n,), dtype, memptr=memptr)
        ctype = np.ctypeslib.as_ctypes_type(dtype)
        self.host = np.ctypeslib.as_array((ctype * n).from_address(memptr.ptr))


class HeatSolver:
    def __init__(self, n):
        self.n = n
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.params = ManagedBuffer(2)
        with self.stream:
            self.u = cp.zeros((n,), dtype=cp.float32)
            self.v = cp.zeros((n,), dtype=cp.float32)
        self.grid = ((n + 255) // 256,)

    def set_step(self, alpha, source):
        self.params.host[0] = alpha
        self.params.host[1] = source

    def advance(self, alpha, source):
        self.set_step(alpha, source)
        _step(self.grid, (256,),
              (self.u, self.v, self.params.device, np.int32(self.n), np.int32(64)),
              stream=self.stream)
        self.u, self.v = self.v, self.u

    def residual(self):
        with self.stream:
            r = cp.abs(self.u - self.v).max()
            return float(r)


def main(n=1 << 22, steps=500):
    solver = HeatSolver(n)
    for k in range(steps):
        solver.advance(0.2 / (k + 1), 1.0 if k % 2 else 0.0)
        if (k + 1) % 50 == 0:
            print(k + 1, solver.residual())


if __name__ == "__main__":
    main()
