"""Unified-memory wave solver; the host applies a source between step groups."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def wave(prev, cur, nxt, c2):
    i = cuda.grid(1)
    if 0 < i < cur.size - 1:
        nxt[i] = 2 * cur[i] - prev[i] + c2 * (cur[i - 1] - 2 * cur[i] + cur[i + 1])


class ManagedWave:
    def __init__(self, n, c2=0.25):
        self.bufs = [cuda.managed_array(n, np.float32) for _ in range(3)]
        for b in self.bufs:
            b[:] = 0
        self.c2 = np.float32(c2)
        self.stream = cuda.stream()
        self.blocks = math.ceil(n / 256)
        self.k = 0

    @property
    def current(self):
        self.stream.synchronize()
        return self.bufs[self.k % 3]

    def advance(self, steps):
        for _ in range(steps):
            prev, cur, nxt = (self.bufs[(self.k + o) % 3] for o in (2, 0, 1))
            wave[self.blocks, 256, self.stream](prev, cur, nxt, self.c2)
            self.k += 1


def simulate(n, groups):
    solver = ManagedWave(n)
    energy = []
    for g in range(groups):
        u = solver.current
        u[n // 2] += math.sin(0.3 * g)
        energy.append(float(np.square(u).sum()))
        solver.advance(16)
    energy.append(float(np.square(solver.current).sum()))
    return energy


if __name__ == "__main__":
    print(simulate(1 << 14, 20)[-1])
