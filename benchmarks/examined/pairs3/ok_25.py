"""Agent simulation with parameters in managed memory, adapted between epochs."""
import numpy as np
from numba import cuda


@cuda.jit
def advance(state, params):
    i = cuda.grid(1)
    if i < state.size:
        s = state[i]
        for _ in range(64):
            s = params[0] * s * (1.0 - s) + params[1]
        state[i] = s


@cuda.jit
def summarise(state, stats):
    i = cuda.grid(1)
    if i < state.size:
        cuda.atomic.add(stats, 0, state[i])
        cuda.atomic.max(stats, 1, state[i])


class Epoch:
    """Context of one epoch."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        return self.stream

    def __exit__(self, exc_type, exc, tb):
        self.stream.synchronize()
        return False


class World:
    def __init__(self, n):
        self.stream = cuda.stream()
        self.state = cuda.to_device(np.random.default_rng(1).uniform(0, 1, n))
        self.params = cuda.managed_array(2, dtype=np.float64)
        self.stats = cuda.managed_array(2, dtype=np.float64)
        self.params[:] = (3.5, 0.0)
        self.grid = ((n + 255) // 256, 256)

    def epoch(self):
        self.stats[:] = 0.0
        with Epoch(self.stream) as stream:
            advance[self.grid[0], self.grid[1], stream](self.state, self.params)
            summarise[self.grid[0], self.grid[1], stream](self.state, self.stats)
        mean = self.stats[0] / self.state.size
        self.params[0] = min(3.9, max(2.8, self.params[0] + 0.1 * (0.6 - mean)))
        return mean, self.stats[1]


def main():
    world = World(1 << 20)
    for e in range(100):
        mean, peak = world.epoch()
    print(mean, peak, world.params[0])


if __name__ == "__main__":
    main()
