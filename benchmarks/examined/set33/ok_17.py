"""Monte Carlo pricing in slices of host arrays."""
import math

import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float32


@cuda.jit
def simulate(rng, spot, vol, rate, horizon, steps, out):
    i = cuda.grid(1)
    if i >= out.shape[0]:
        return
    s = spot[i]
    dt = horizon / steps
    for _ in range(steps):
        z = xoroshiro128p_normal_float32(rng, i)
        s *= math.exp((rate - 0.5 * vol[i] * vol[i]) * dt + vol[i] * math.sqrt(dt) * z)
    out[i] = s


@cuda.jit
def payoff(final, strike, discount, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i] = discount * max(final[i] - strike, 0.0)


class SlicePricer:
    """Prices options slice by slice."""

    def __init__(self, slice_size=1 << 18, block=128, seed=1):
        self.slice_size, self.block = slice_size, block
        self.stream = cuda.stream()
        self.grid = (slice_size + block - 1) // block
        self.rng = create_xoroshiro128p_states(self.grid * block, seed=seed)
        self.d_spot = cuda.device_array(slice_size, np.float32)
        self.d_vol = cuda.device_array(slice_size, np.float32)
        self.d_final = cuda.device_array(slice_size, np.float32)
        self.d_pay = cuda.device_array(slice_size, np.float32)
        cuda.synchronize()

    def _run_slice(self, spot, vol, out, rate, strike, horizon, steps):
        n = len(spot)
        d_spot, d_vol = self.d_spot[:n], self.d_vol[:n]
        d_final, d_pay = self.d_final[:n], self.d_pay[:n]
        discount = math.exp(-rate * horizon)
        with cuda.pinned(spot, vol, out):
            with self.stream.auto_synchronize() as stream:
                d_spot.copy_to_device(spot, stream=stream)
                d_vol.copy_to_device(vol, stream=stream)
                simulate[self.grid, self.block, stream](
                    self.rng, d_spot, d_vol, rate, horizon, steps, d_final
                )
                payoff[self.grid, self.block, stream](d_final, strike, discount, d_pay)
                d_pay.copy_to_host(out, stream=stream)
        return out

    def price(self, spot, vol, rate=0.03, strike=100.0, horizon=1.0, steps=64):
        spot = np.ascontiguousarray(spot, dtype=np.float32)
        vol = np.ascontiguousarray(vol, dtype=np.float32)
        result = np.empty_like(spot)
        for start in range(0, len(spot), self.slice_size):
            part = slice(start, start + self.slice_size)
            self._run_slice(spot[part], vol[part], result[part], rate, strike, horizon, steps)
        return float(result.mean()), float(result.std() / math.sqrt(len(result)))


def main(n=1 << 20):
    rng = np.random.default_rng(0)
    return SlicePricer().price(rng.uniform(90, 110, n), rng.uniform(0.1, 0.4, n))


if __name__ == "__main__":
    print(main())
