"""Reaction-diffusion in managed memory with host-side control of the feed rate."""
import numpy as np
from numba import cuda

N = 1 << 20


@cuda.jit
def react(u, v, feed, kill, n):
    i = cuda.grid(1)
    if 0 < i < n - 1:
        r = u[i] * v[i] * v[i]
        u[i] += feed * (1.0 - u[i]) - r
        v[i] += r - (feed + kill) * v[i]


class Reactor:
    def __init__(self):
        self.u = cuda.managed_array(N, dtype=np.float32)
        self.v = cuda.managed_array(N, dtype=np.float32)
        self.u[:], self.v[:] = 1.0, 0.0
        self.v[N // 2 - 500: N // 2 + 500] = 0.5
        self.stream = cuda.stream()
        self.feed, self.kill = 0.04, 0.06

    def run(self, steps):
        grid = (N + 127) // 128
        for _ in range(steps):
            react[grid, 128, self.stream](self.u, self.v, self.feed, self.kill, N)

    def control(self):
        level = float(np.mean(self.v))
        if level < 1e-4:
            self.feed *= 1.05
        elif level > 0.2:
            self.feed *= 0.95
        return level

    def final(self):
        self.stream.synchronize()
        return np.array(self.v)


def main():
    reactor = Reactor()
    levels = []
    for _ in range(100):
        reactor.run(20)
        levels.append(reactor.control())
    print(levels[-1], reactor.final().max())


if __name__ == "__main__":
    main()
