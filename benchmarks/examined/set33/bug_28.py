import ctypes

import cupy as cp
from cupy.cuda import runtime

_axpy = cp.ElementwiseKernel("float64 a, float64 x, float64 y", "float64 z", "z = a * x + y", "cg_axpy")
_dot = cp.ReductionKernel("float64 x, float64 y", "float64 s", "x * y", "a + b", "s = a", "0", "cg_dot")


class HostScalar:
    """Brings one device scalar to the host without building an array."""

    def __init__(self):
        self._value = ctypes.c_double(0.0)

    def fetch(self, scalar: cp.ndarray) -> float:
        runtime.memcpy(
            ctypes.addressof(self._value),
            scalar.data.ptr,
            scalar.nbytes,
            runtime.memcpyDeviceToHost,
        )
        return self._value.value


class ConjugateGradient:
    def __init__(self, matvec, n: int):
        self.matvec = matvec
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host = HostScalar()
        with self.stream:
            self.rs = cp.zeros((), dtype=cp.float64)
            self.pap = cp.zeros((), dtype=cp.float64)
            self.r = cp.zeros(n, dtype=cp.float64)
            self.p = cp.zeros(n, dtype=cp.float64)

    def _norm2(self) -> float:
        _dot(self.r, self.r, self.rs)
        return self.host.fetch(self.rs)

    def _step_length(self, ap: cp.ndarray, rs: float) -> float:
        _dot(self.p, ap, self.pap)
        return rs / self.host.fetch(self.pap)

    def solve(self, b: cp.ndarray, x: cp.ndarray, tol: float = 1e-10, limit: int = 500) -> int:
        self.stream.wait_event(cp.cuda.get_current_stream().record())
        with self.stream:
            cp.subtract(b, self.matvec(x), out=self.r)
            self.p[...] = self.r
            rs = self._norm2()
            for it in range(limit):
                ap = self.matvec(self.p)
                alpha = self._step_length(ap, rs)
                _axpy(alpha, self.p, x, x)
                _axpy(-alpha, ap, self.r, self.r)
                rs_new = self._norm2()
                if rs_new < tol:
                    break
                _axpy(rs_new / rs, self.p, self.r, self.p)
                rs = rs_new
        self.stream.synchronize()
        return it + 1


def main():
    n = 1 << 20
    diag = cp.linspace(1.0, 50.0, n)
    b = cp.ones(n)
    x = cp.zeros(n)
    solver = ConjugateGradient(lambda v: diag * v, n)
    print(solver.solve(b, x))


if __name__ == "__main__":
    main()
