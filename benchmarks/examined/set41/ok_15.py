"""CuPy produces on its own stream, numba consumes through the array interface."""
import math

import cupy as cp
import numpy as np
from numba import cuda


@cuda.jit
def soft_threshold(x, lam, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        mag = math.fabs(v) - lam
        if mag < 0.0:
            mag = 0.0
        out[i] = math.copysign(mag, v)


@cuda.jit
def count_nonzero(x, out):
    i = cuda.grid(1)
    if i < x.size and x[i] != 0.0:
        cuda.atomic.add(out, 0, 1)


class Gradient:
    """CuPy side: gradient step of a least-squares problem."""

    def __init__(self, rows, cols, seed=0):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            rng = cp.random.RandomState(seed)
            self.a = rng.standard_normal((rows, cols), dtype=np.float32)
            self.b = rng.standard_normal(rows, dtype=np.float32)
        self.stream.synchronize()

    def step(self, x, rate):
        with self.stream:
            residual = self.a @ x - self.b
            moved = x - np.float32(rate) * (self.a.T @ residual)
            return cuda.as_cuda_array(moved)


class Prox:
    """Numba side: proximal operator on a numba stream."""

    THREADS = 256

    def __init__(self, n):
        self.n = n
        self.stream = cuda.stream()
        self.out = cuda.device_array(n, dtype=np.float32)
        self.count = cuda.device_array(1, dtype=np.int32)

    @property
    def blocks(self):
        return (self.n + self.THREADS - 1) // self.THREADS

    def apply(self, moved, lam):
        self.count.copy_to_device(np.zeros(1, dtype=np.int32), stream=self.stream)
        soft_threshold[self.blocks, self.THREADS, self.stream](moved, lam, self.out)
        count_nonzero[self.blocks, self.THREADS, self.stream](self.out, self.count)
        support = int(self.count.copy_to_host()[0])
        return self.out, support


def ista(rows=2048, cols=4096, iters=50, lam=0.05, rate=5e-5):
    grad = Gradient(rows, cols)
    prox = Prox(cols)
    with grad.stream:
        x = cp.zeros(cols, dtype=cp.float32)
    trace = []
    for _ in range(iters):
        moved = grad.step(x, rate)
        shrunk, support = prox.apply(moved, np.float32(lam * rate))
        with grad.stream:
            x = cp.asarray(shrunk).copy()
        grad.stream.synchronize()
        trace.append(support)
    return cp.asnumpy(x), trace


if __name__ == "__main__":
    solution, sizes = ista()
    print(sizes[-1], np.abs(solution).max())
