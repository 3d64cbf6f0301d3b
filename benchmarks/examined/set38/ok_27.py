"""Two Numba streams that share a grid; results come back with a plain copy."""
import math

import numpy as np
from numba import cuda

N = 1 << 20


@cuda.jit
def relax(src, dst, k):
    i = cuda.grid(1)
    n = src.size
    if i < n:
        left = src[i - 1] if i > 0 else src[n - 1]
        right = src[i + 1] if i + 1 < n else src[0]
        dst[i] = src[i] + k * (left + right - 2.0 * src[i])


@cuda.jit
def energy(src, partial):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    acc = 0.0
    for j in range(i, src.size, step):
        acc += src[j] * src[j]
    partial[i] = acc


class Field:
    def __init__(self, init):
        self.a = cuda.to_device(init)
        self.b = cuda.device_array_like(self.a)
        self.threads = 256
        self.blocks = math.ceil(init.size / self.threads)

    def sweep(self, n, k, stream):
        for _ in range(n):
            relax[self.blocks, self.threads, stream](self.a, self.b, k)
            self.a, self.b = self.b, self.a


class Probe:
    """Sums the field's squares into a small vector."""

    def __init__(self, lanes=64):
        self.lanes = lanes
        self.partial = cuda.device_array(lanes * 128, dtype=np.float64)
        self.host = np.empty(lanes * 128, dtype=np.float64)

    def take(self, field, stream):
        energy[self.lanes, 128, stream](field.a, self.partial)
        self.partial.copy_to_host(self.host)
        return float(self.host.sum())


class Simulation:
    def __init__(self, init):
        self.step_stream = cuda.stream()
        self.probe_stream = cuda.stream()
        self.swept = cuda.event(timing=False)
        self.field = Field(init)
        self.probe = Probe()

    def advance(self, n, k=0.2):
        self.field.sweep(n, k, self.step_stream)
        self.swept.record(self.step_stream)

    def measure(self):
        self.swept.wait(self.probe_stream)
        return self.probe.take(self.field, self.probe_stream)


def main():
    rng = np.random.default_rng(0)
    sim = Simulation(rng.standard_normal(N))
    log = []
    for _ in range(20):
        sim.advance(50)
        log.append(sim.measure())
    for i, e in enumerate(log):
        print(f"{i:2d} {e:.6e}")
    assert all(x >= y for x, y in zip(log, log[1:]))


if __name__ == "__main__":
    main()
