import cufinufft
import cupy as cp
import numpy as np


class NufftGradient:
    """Gradient of 0.5 * || W^(1/2) (A x - y) ||^2 for a non-Cartesian trajectory."""

    def __init__(self, coords, weights, shape, stream, eps=1e-5):
        self.shape = shape
        self.stream = stream
        with stream:
            self.coords = [cp.asarray(c, dtype=cp.float32) for c in coords]
            self.weights = cp.asarray(weights, dtype=cp.float32)
        self.stream.synchronize()
        self.forward = cufinufft.Plan(2, shape, 1, eps, isign=-1, dtype="complex64")
        self.adjoint = cufinufft.Plan(1, shape, 1, eps, isign=1, dtype="complex64")
        self.forward.setpts(*self.coords)
        self.adjoint.setpts(*self.coords)
        self.norm = 1.0 / float(np.sqrt(np.prod(shape)))

    def residual(self, image, kdata):
        out = cp.empty(kdata.shape, dtype=cp.complex64)
        self.forward.execute(image, out=out)
        out *= self.norm
        out -= kdata
        return out

    def gradient(self, image, kdata):
        res = self.residual(image, kdata)
        res *= self.weights
        grad = cp.empty(self.shape, dtype=cp.complex64)
        self.adjoint.execute(res, out=grad)
        grad *= self.norm
        return grad


class ProximalSolver:
    def __init__(self, coords, weights, shape, step, lamda):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.operator = NufftGradient(coords, weights, shape, self.stream)
        self.shape = shape
        self.step = step
        self.lamda = lamda

    def _shrink(self, x):
        mag = cp.abs(x)
        return x * (cp.maximum(mag - self.lamda, 0) / cp.maximum(mag, 1e-12))

    def solve(self, kdata, iterations):
        with self.stream:
            y = cp.asarray(kdata, dtype=cp.complex64)
            x = cp.zeros(self.shape, dtype=cp.complex64)
            for _ in range(iterations):
                x = x - self.step * self.operator.gradient(x, y)
                x = self._shrink(x).astype(cp.complex64)
            result = cp.asnumpy(x)
        return result
