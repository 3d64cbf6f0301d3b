"""Monte-Carlo pricing with numba: strips of paths run on several streams, results page-locked."""
import math

import numpy as np
from numba import cuda, float32
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float32

THREADS = 128


@cuda.jit
def simulate(states, steps, dt, drift, sigma, strike, payoffs):
    i = cuda.grid(1)
    if i >= payoffs.shape[0]:
        return
    log_price = float32(0.0)
    for _ in range(steps):
        z = xoroshiro128p_normal_float32(states, i)
        log_price += (drift - 0.5 * sigma * sigma) * dt + sigma * math.sqrt(dt) * z
    payoffs[i] = max(math.exp(log_price) - strike, 0.0)


@cuda.jit
def block_sums(values, partial):
    shared = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    shared[t] = values[i] if i < values.shape[0] else 0.0
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if t < width:
            shared[t] += shared[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        partial[cuda.blockIdx.x] = shared[0]


class Strip:
    """Everything one stream needs; device arrays never leave their stream."""

    def __init__(self, paths, seed):
        self.stream = cuda.stream()
        self.blocks = (paths + THREADS - 1) // THREADS
        self.paths = paths
        self.states = create_xoroshiro128p_states(
            self.blocks * THREADS, seed=seed, stream=self.stream)
        self.payoffs = cuda.device_array(paths, dtype=np.float32, stream=self.stream)
        self.partial = cuda.device_array(self.blocks, dtype=np.float32, stream=self.stream)
        self.host = cuda.pinned_array(self.blocks, dtype=np.float32)

    def launch(self, steps, maturity, drift, sigma, strike):
        dt = np.float32(maturity / steps)
        simulate[self.blocks, THREADS, self.stream](
            self.states, steps, dt, np.float32(drift), np.float32(sigma),
            np.float32(strike), self.payoffs)
        block_sums[self.blocks, THREADS, self.stream](self.payoffs, self.partial)
        self.partial.copy_to_host(self.host, stream=self.stream)

    def mean(self):
        with self.stream.auto_synchronize():
            pass
        return float(self.host.sum(dtype=np.float64)) / self.paths


class Pricer:
    def __init__(self, strips=4, paths=1 << 20):
        self.strips = [Strip(paths, seed) for seed in range(1, strips + 1)]

    def price(self, strike, maturity=1.0, drift=0.03, sigma=0.2, steps=252):
        for strip in self.strips:
            strip.launch(steps, maturity, drift, sigma, strike)
        means = [strip.mean() for strip in self.strips]
        return math.exp(-drift * maturity) * sum(means) / len(means)


def surface(strikes, sigmas):
    pricer = Pricer()
    return np.array([[pricer.price(k, sigma=s) for k in strikes] for s in sigmas])


if __name__ == "__main__":
    print(surface([0.9, 1.0, 1.1], [0.1, 0.2]))
