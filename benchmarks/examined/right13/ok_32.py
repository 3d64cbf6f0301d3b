"""Monte-Carlo option pricing; every strike runs on its own Numba stream."""
import math

import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float32

THREADS = 256


@cuda.jit
def simulate(states, spot, strike, drift, vol, steps, paths_per_thread, partial):
    tid = cuda.grid(1)
    if tid >= states.shape[0]:
        return
    acc = 0.0
    for _ in range(paths_per_thread):
        log_s = math.log(spot)
        for _ in range(steps):
            log_s += drift + vol * xoroshiro128p_normal_float32(states, tid)
        acc += max(math.exp(log_s) - strike, 0.0)
    partial[tid] = acc


@cuda.jit
def fold(partial, out):
    shared = cuda.shared.array(THREADS, dtype=np.float64)
    t = cuda.threadIdx.x
    acc = 0.0
    for i in range(t, partial.shape[0], THREADS):
        acc += partial[i]
    shared[t] = acc
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            shared[t] += shared[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[0] = shared[0]


class Pricer:
    def __init__(self, strikes, threads=1 << 14, seed=7):
        self.strikes = [float(k) for k in strikes]
        self.threads = threads
        self.lanes = []
        for i, _ in enumerate(self.strikes):
            stream = cuda.stream()
            states = create_xoroshiro128p_states(threads, seed=seed + i, stream=stream)
            partial = cuda.device_array(threads, dtype=np.float64, stream=stream)
            total = cuda.device_array(1, dtype=np.float64, stream=stream)
            self.lanes.append((stream, states, partial, total))

    def price(self, spot, rate, sigma, years, steps=64, paths_per_thread=8):
        if steps < 1 or paths_per_thread < 1:
            raise ValueError("steps and paths_per_thread must be positive")
        dt = years / steps
        drift = np.float32((rate - 0.5 * sigma * sigma) * dt)
        vol = np.float32(sigma * math.sqrt(dt))
        blocks = (self.threads + THREADS - 1) // THREADS
        for (stream, states, partial, total), strike in zip(self.lanes, self.strikes):
            simulate[blocks, THREADS, stream](
                states, np.float32(spot), np.float32(strike), drift, vol,
                steps, paths_per_thread, partial,
            )
            fold[1, THREADS, stream](partial, total)
        discount = math.exp(-rate * years) / (self.threads * paths_per_thread)
        quotes = {}
        for (stream, _, _, total), strike in zip(self.lanes, self.strikes):
            answer = np.empty(1, dtype=np.float64)
            total.copy_to_host(answer, stream=stream)
            quotes[strike] = float(answer[0]) * discount
        return quotes


if __name__ == "__main__":
    pricer = Pricer([90, 100, 110])
    for vol in (0.1, 0.2, 0.4):
        print(vol, pricer.price(100.0, 0.03, vol, 1.0))
