"""Charge deposition and field solve of a 1D PIC model on two Numba streams."""
import numpy as np
from numba import cuda


@cuda.jit
def deposit(x, rho):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(rho, int(x[i]) % rho.size, 1.0)


@cuda.jit
def solve(rho, e, h):
    i = cuda.grid(1)
    if i < rho.size:
        left = rho[i - 1] if i > 0 else rho[rho.size - 1]
        e[i] = (rho[i] - left) * h


class Lane:
    def __init__(self):
        self.stream = cuda.stream()
        self.last = cuda.event(timing=False)

    def behind(self, other):
        other.last.wait(stream=self.stream)
        return self


class FieldCycle:
    def __init__(self, x, cells):
        self.x = cuda.to_device(x)
        self.rho = cuda.to_device(np.zeros(cells))
        self.e = cuda.device_array(cells)
        self.particles, self.grid = Lane(), Lane()

    def cycle(self):
        p = self.particles.behind(self.grid)
        p.last.record(stream=p.stream)
        deposit[1024, 256, p.stream](self.x, self.rho)
        g = self.grid.behind(self.particles)
        solve[16, 256, g.stream](self.rho, self.e, 0.5)
        g.last.record(stream=g.stream)

    def field(self):
        self.grid.stream.synchronize()
        self.particles.stream.synchronize()
        return self.e.copy_to_host()


if __name__ == "__main__":
    cyc = FieldCycle(np.random.default_rng(0).uniform(0, 4096, 1 << 18), 4096)
    for _ in range(50):
        cyc.cycle()
    print(np.abs(cyc.field()).max())
