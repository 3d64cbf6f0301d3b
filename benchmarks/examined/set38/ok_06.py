"""Stream results of a Numba solver to a file: kernels on a stream, plain copies out."""
import io
import struct

import numpy as np
from numba import cuda


@cuda.jit
def jacobi(src, dst):
    i, j = cuda.grid(2)
    n, m = src.shape
    if 0 < i < n - 1 and 0 < j < m - 1:
        dst[i, j] = 0.25 * (src[i - 1, j] + src[i + 1, j] + src[i, j - 1] + src[i, j + 1])
    elif i < n and j < m:
        dst[i, j] = src[i, j]


@cuda.jit
def residual(a, b, out):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        d = a[i, j] - b[i, j]
        cuda.atomic.max(out, 0, abs(d))


class Writer:
    def __init__(self, fh):
        self.fh = fh
        self.records = 0

    def write(self, step, res, field):
        payload = memoryview(field).cast("B")
        self.fh.write(struct.pack("<qdQ", step, res, len(payload)))
        self.fh.write(payload)
        self.records += 1


class Solver:
    TPB = (16, 16)

    def __init__(self, n):
        host = np.zeros((n, n), dtype=np.float32)
        host[0, :] = 100.0
        self.n = n
        self.stream = cuda.stream()
        self.a = cuda.to_device(host)
        self.b = cuda.device_array((n, n), dtype=np.float32)
        self.res = cuda.device_array(1, dtype=np.float32)
        self.snapshot = cuda.pinned_array((n, n), dtype=np.float32)

    @property
    def grid(self):
        g = (self.n + self.TPB[0] - 1) // self.TPB[0]
        return (g, g)

    def advance(self, sweeps):
        for _ in range(sweeps):
            jacobi[self.grid, self.TPB, self.stream](self.a, self.b)
            self.a, self.b = self.b, self.a

    def measure(self):
        self.res.copy_to_device(np.zeros(1, dtype=np.float32))
        residual[self.grid, self.TPB](self.a, self.b, self.res)
        return float(self.res.copy_to_host()[0])

    def field(self):
        self.a.copy_to_host(self.snapshot)
        return self.snapshot


def main():
    solver = Solver(1024)
    out = Writer(io.BytesIO())
    for step in range(10):
        solver.advance(50)
        res = solver.measure()
        out.write(step, res, solver.field())
        if res < 1e-3:
            break
    print(out.records, res, out.fh.tell())


if __name__ == "__main__":
    main()
