"""Monte-Carlo path pricing with Numba; batches of draws come from the host."""
import numpy as np
from numba import cuda

THREADS = 256


@cuda.jit
def evolve(draws, spot, drift, vol, terminal):
    i = cuda.grid(1)
    if i < terminal.size:
        level = spot
        for t in range(draws.shape[1]):
            level *= 1.0 + drift + vol * draws[i, t]
        terminal[i] = level


@cuda.jit
def payoff_sum(terminal, strike, total):
    i = cuda.grid(1)
    if i < terminal.size:
        gain = terminal[i] - strike
        if gain > 0.0:
            cuda.atomic.add(total, 0, gain)


class PathPricer:
    def __init__(self, paths, steps):
        self.paths = paths
        self.blocks = (paths + THREADS - 1) // THREADS
        self.upload = cuda.stream()
        self.host_draws = cuda.pinned_array((paths, steps), dtype=np.float32)
        self.draws = cuda.device_array((paths, steps), dtype=np.float32)
        self.terminal = cuda.device_array(paths, dtype=np.float32)
        self.total = cuda.to_device(np.zeros(1, dtype=np.float64))

    def batch(self, rng, spot, strike):
        """Price one batch and return the running sum of payoffs."""
        self.host_draws[:] = rng.standard_normal(self.host_draws.shape, dtype=np.float32)
        self.draws.copy_to_device(self.host_draws, stream=self.upload)
        evolve[self.blocks, THREADS](self.draws, spot, 0.0001, 0.01, self.terminal)
        payoff_sum[self.blocks, THREADS, self.upload](self.terminal, strike, self.total)
        return self.total.copy_to_host()[0]


def main():
    rng = np.random.default_rng(3)
    pricer = PathPricer(1 << 16, 252)
    running = 0.0
    for _ in range(20):
        running = pricer.batch(rng, 100.0, 101.0)
    print(running / (20 * pricer.paths))


if __name__ == "__main__":
    main()
