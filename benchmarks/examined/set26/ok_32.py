"""Diffusion step: boundary and inner regions computed by tasks."""
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from numba import cuda


@cuda.jit
def diffusion(out, c, lo, hi, dt):
    i = cuda.grid(1) + lo
    if i < hi and 0 < i < c.size - 1:
        out[i] = c[i] + dt * (c[i - 1] - 2.0 * c[i] + c[i + 1])


class Region:
    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi
        self.stream = cuda.stream()

    def launch(self, out, c, dt):
        threads = 256
        blocks = (self.hi - self.lo + threads - 1) // threads
        diffusion[blocks, threads, self.stream](out, c, self.lo, self.hi, dt)
        self.stream.synchronize()


class DistributedField:
    def __init__(self, n, width=4096):
        init = np.zeros(n, np.float64)
        init[n // 2] = 1.0
        self.c = cuda.to_device(init)
        self.c2 = cuda.to_device(init)
        cuda.synchronize()
        self.outer = [Region(0, width), Region(n - width, n)]
        self.inner = Region(width, n - width)
        self.edge = [cuda.pinned_array(1, np.float64) for _ in range(2)]
        self.pool = ThreadPoolExecutor(3)

    def _outer_task(self, k, dt):
        region = self.outer[k]
        region.launch(self.c2, self.c, dt)
        index = 1 if k == 0 else self.c2.size - 2
        self.c2[index:index + 1].copy_to_host(self.edge[k], stream=region.stream)
        region.stream.synchronize()
        return float(self.edge[k][0])

    def step(self, dt):
        inner = self.pool.submit(self.inner.launch, self.c2, self.c, dt)
        outer = [self.pool.submit(self._outer_task, k, dt) for k in range(2)]
        edges = [f.result() for f in outer]
        inner.result()
        self.c, self.c2 = self.c2, self.c
        return edges

    def total(self):
        return float(self.c.copy_to_host().sum())


def main():
    field = DistributedField(1 << 22)
    for _ in range(100):
        edges = field.step(0.1)
    print(field.total(), edges)


if __name__ == "__main__":
    main()
