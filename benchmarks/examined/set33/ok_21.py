import ctypes

import cupy as cp
from cupy.cuda import runtime

_axpy = cp.ElementwiseKernel("float64 a, float64 x, float64 y", "float64 z", "z = a * x + y", "lz_axpy")
_dot = cp.ReductionKernel("float64 x, float64 y", "float64 s", "x * y", "a + b", "s = a", "0", "lz_dot")


class ScalarFetch:
    def __init__(self):
        self._value = ctypes.c_double(0.0)

    def __call__(self, scalar: cp.ndarray) -> float:
        runtime.memcpy(
            ctypes.addressof(self._value),
            scalar.data.ptr,
            scalar.nbytes,
            runtime.memcpyDeviceToHost,
        )
        return self._value.value


class Lanczos:
    """Tridiagonalises a symmetric operator; alpha and beta live on the host."""

    def __init__(self, matvec, n: int):
        self.matvec = matvec
        self.n = n
        self.stream = cp.cuda.Stream()
        self.fetch = ScalarFetch()
        with self.stream:
            self.scalar = cp.zeros((), dtype=cp.float64)
            self.prev = cp.zeros(n, dtype=cp.float64)
            self.work = cp.zeros(n, dtype=cp.float64)

    def _inner(self, a: cp.ndarray, b: cp.ndarray) -> float:
        _dot(a, b, self.scalar)
        return self.fetch(self.scalar)

    def run(self, start: cp.ndarray, steps: int):
        alphas, betas = [], []
        q = start / cp.linalg.norm(start)
        beta = 0.0
        self.stream.wait_event(cp.cuda.get_current_stream().record())
        with self.stream:
            self.prev.fill(0)
            for _ in range(steps):
                self.work[...] = self.matvec(q)
                alpha = self._inner(q, self.work)
                _axpy(-alpha, q, self.work, self.work)
                _axpy(-beta, self.prev, self.work, self.work)
                norm2 = self._inner(self.work, self.work)
                alphas.append(alpha)
                beta = norm2 ** 0.5
                if beta < 1e-12:
                    break
                betas.append(beta)
                self.prev[...] = q
                q = self.work / beta
        self.stream.synchronize()
        return alphas, betas


def main():
    n = 1 << 18
    diag = cp.linspace(0.0, 1.0, n)
    solver = Lanczos(lambda v: diag * v, n)
    alphas, betas = solver.run(cp.ones(n), 30)
    print(alphas[-1], betas[-1])


if __name__ == "__main__":
    main()
