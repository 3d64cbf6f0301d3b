"""Conjugate gradient with device-resident scalars (cuda-python runtime bindings and CuPy)."""
import ctypes

import cupy as cp
import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


class Resources:
    """Stream and scratch shared by the algorithms of one solver."""

    def __init__(self):
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.cupy_stream = cp.cuda.ExternalStream(int(self.stream))

    def sync(self):
        check(cudart.cudaStreamSynchronize(self.stream))


class DeviceScalar:
    """A float64 on the device; reads go through a page-locked mirror."""

    def __init__(self, res: Resources):
        self.res = res
        self.array = cp.zeros(1, dtype=cp.float64)
        self._mirror_ptr = check(cudart.cudaMallocHost(8))
        raw = (ctypes.c_double * 1).from_address(int(self._mirror_ptr))
        self._mirror = np.ctypeslib.as_array(raw)

    def get(self) -> float:
        check(
            cudart.cudaMemcpyAsync(
                self._mirror_ptr,
                self.array.data.ptr,
                8,
                cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost,
                self.res.stream,
            )
        )
        return float(self._mirror[0])

    def store_dot(self, a, b):
        with self.res.cupy_stream:
            cp.sum(a * b, keepdims=True, out=self.array)

    def close(self):
        self.res.sync()
        self._mirror = None
        check(cudart.cudaFreeHost(self._mirror_ptr))


class ConjugateGradient:
    def __init__(self, matrix, res: Resources, tol=1e-8, max_iter=500):
        self.matrix = matrix
        self.res = res
        self.tol = tol
        self.max_iter = max_iter
        self.rho = DeviceScalar(res)
        self.curvature = DeviceScalar(res)

    def solve(self, rhs):
        with self.res.cupy_stream:
            x = cp.zeros_like(rhs)
            r = rhs.copy()
            p = r.copy()
        self.rho.store_dot(r, r)
        rho = self.rho.get()
        for iteration in range(self.max_iter):
            with self.res.cupy_stream:
                q = self.matrix @ p
            self.curvature.store_dot(p, q)
            alpha = rho / self.curvature.get()
            with self.res.cupy_stream:
                x += alpha * p
                r -= alpha * q
            self.rho.store_dot(r, r)
            updated = self.rho.get()
            if updated < self.tol:
                break
            with self.res.cupy_stream:
                p = r + (updated / rho) * p
            rho = updated
        self.res.sync()
        return x, iteration

    def close(self):
        self.rho.close()
        self.curvature.close()


def main():
    n = 2048
    rng = cp.random.default_rng(0)
    base = rng.standard_normal((n, n))
    matrix = base @ base.T + n * cp.eye(n)
    rhs = rng.standard_normal(n)
    cp.cuda.Stream.null.synchronize()
    solver = ConjugateGradient(matrix, Resources())
    cp.cuda.Stream.null.synchronize()
    x, iterations = solver.solve(rhs)
    print(iterations, float(cp.linalg.norm(matrix @ x - rhs)))
    solver.close()


if __name__ == "__main__":
    main()
