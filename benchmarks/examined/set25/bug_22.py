"""Composite operator application with CUDA graph replay (CuPy backend)."""
import cupy as cp

_mass = cp.ElementwiseKernel(
    "float64 u, float64 q", "float64 v", "v = q * u", "ceed_mass")
_diff = cp.ElementwiseKernel(
    "float64 u, float64 q", "float64 v", "v += q * u * u", "ceed_diff")


class CeedVector:
    def __init__(self, length):
        self.array = cp.zeros(length, dtype=cp.float64)

    def set_array(self, values):
        self.array = cp.asarray(values, dtype=cp.float64).copy()

    def axpy(self, alpha, other):
        self.array += alpha * other.array

    def norm(self):
        return float(cp.linalg.norm(self.array))


class CompositeOperator:
    """Sum of sub operators; the second application is captured and replayed."""

    def __init__(self, qdata, stream):
        self.qdata = qdata
        self.stream = stream
        self.calls = 0
        self.graph = None

    def _apply_suboperators(self, u, v):
        _mass(u.array, self.qdata, v.array)
        _diff(u.array, self.qdata, v.array)

    def apply_add(self, u, v):
        self.calls += 1
        if self.calls == 1:
            self._apply_suboperators(u, v)
            return
        if self.graph is None:
            self.stream.begin_capture()
            self._apply_suboperators(u, v)
            self.graph = self.stream.end_capture()
        self.graph.launch(self.stream)


def richardson(op, u, v, rhs, steps):
    history = []
    for step in range(steps):
        op.apply_add(u, v)
        residual = rhs - v.array
        u.set_array(u.array + 0.1 * residual)
        history.append(float(cp.linalg.norm(residual)))
    return history


def main():
    n = 1 << 18
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        q = cp.random.random(n)
        u, v = CeedVector(n), CeedVector(n)
        u.set_array(cp.ones(n))
        rhs = cp.full(n, 2.0)
        op = CompositeOperator(q, stream)
        print(richardson(op, u, v, rhs, 20)[-1])
        stream.synchronize()


if __name__ == "__main__":
    main()
