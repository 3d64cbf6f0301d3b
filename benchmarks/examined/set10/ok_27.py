import math

import numpy as np
from numba import cuda, float64


@cuda.jit
def sample_path(z, drift, vol, strike, payoff):
    i = cuda.grid(1)
    if i < payoff.size:
        s = 100.0
        for k in range(z.shape[1]):
            s *= math.exp(drift + vol * z[i, k])
        payoff[i] = max(s - strike, 0.0)


@cuda.jit
def block_sum(values, partial):
    buf = cuda.shared.array(256, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    acc = 0.0
    while i < values.size:
        acc += values[i]
        i += cuda.gridsize(1)
    buf[t] = acc
    cuda.syncthreads()
    step = 128
    while step > 0:
        if t < step:
            buf[t] += buf[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        partial[cuda.blockIdx.x] = buf[0]


class EuropeanCall:
    def __init__(self, strike=105.0, rate=0.02, sigma=0.25, maturity=1.0, steps=64):
        self.strike, self.rate, self.sigma = strike, rate, sigma
        self.maturity, self.steps = maturity, steps
        dt = maturity / steps
        self.drift = (rate - 0.5 * sigma**2) * dt
        self.vol = sigma * math.sqrt(dt)


class MonteCarlo:
    """Samples on two streams, reduces on the default stream."""

    def __init__(self, paths=1 << 18, seed=7):
        self.paths = paths
        self.rng = np.random.default_rng(seed)
        self.streams = [cuda.stream() for _ in range(2)]
        half = paths // 2
        self.payoff = cuda.device_array(paths, np.float64)
        self.halves = [self.payoff[:half], self.payoff[half:]]
        self.partial = cuda.device_array(64, np.float64)

    def price(self, option):
        for stream, part in zip(self.streams, self.halves):
            z = cuda.to_device(self.rng.standard_normal((part.size, option.steps)))
            grid = (part.size + 255) // 256
            sample_path[grid, 256, stream](z, option.drift, option.vol, option.strike, part)
        block_sum[64, 256](self.payoff, self.partial)
        total = self.partial.copy_to_host().sum()
        return math.exp(-option.rate * option.maturity) * total / self.paths


def calibrate(quotes, sigmas):
    mc = MonteCarlo()
    best = None
    for sigma in sigmas:
        error = sum((mc.price(EuropeanCall(strike=k, sigma=sigma)) - q) ** 2 for k, q in quotes)
        if best is None or error < best[0]:
            best = (error, sigma)
    return best
