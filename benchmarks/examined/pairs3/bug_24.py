"""Power iteration with a mapped scalar for the Rayleigh quotient."""
import numpy as np
from numba import cuda


@cuda.jit
def matvec(a, x, y):
    row = cuda.grid(1)
    if row < a.shape[0]:
        s = 0.0
        for j in range(a.shape[1]):
            s += a[row, j] * x[j]
        y[row] = s


@cuda.jit
def dot(x, y, result):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(result, 0, x[i] * y[i])


@cuda.jit
def rescale(y, x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = y[i] * factor


class PowerIteration:
    threads = 128

    def __init__(self, matrix):
        n = matrix.shape[0]
        self.blocks = (n + self.threads - 1) // self.threads
        self.stream = cuda.stream()
        self.a = cuda.to_device(matrix)
        self.x = cuda.to_device(np.full(n, 1.0 / np.sqrt(n)))
        self.y = cuda.device_array(n)
        self.norm2 = cuda.mapped_array(1, dtype=np.float64)

    def _launch(self, kernel, *args):
        kernel[self.blocks, self.threads, self.stream](*args)

    def run(self, iterations):
        value = 0.0
        for _ in range(iterations):
            self._launch(matvec, self.a, self.x, self.y)
            self.norm2[0] = 0.0
            self._launch(dot, self.y, self.y, self.norm2)
            value = float(np.sqrt(self.norm2[0]))
            self._launch(rescale, self.y, self.x, 1.0 / (value + 1e-30))
            self.stream.synchronize()
        return value


def main(n=4096):
    rng = np.random.default_rng(0)
    m = rng.normal(size=(n, n))
    print(PowerIteration(m @ m.T / n).run(200))


if __name__ == "__main__":
    main()
