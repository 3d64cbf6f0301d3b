import math

import numpy as np
from numba import cuda


@cuda.jit
def _black_scholes(spot, strike, years, rate, vol, out):
    i = cuda.grid(1)
    if i >= out.size:
        return
    s, k, t = spot[i], strike[i], years[i]
    root = vol * math.sqrt(t)
    d1 = (math.log(s / k) + (rate + 0.5 * vol * vol) * t) / root
    d2 = d1 - root
    n1 = 0.5 * math.erfc(-d1 / math.sqrt(2.0))
    n2 = 0.5 * math.erfc(-d2 / math.sqrt(2.0))
    out[i] = s * n1 - k * math.exp(-rate * t) * n2


class OptionPricer:
    """Prices batches of calls; one pricer per thread."""

    THREADS = 128

    def __init__(self, max_batch: int):
        self.stream = cuda.stream()
        self.h_inputs = cuda.pinned_array((3, max_batch), np.float64)
        self.h_prices = cuda.pinned_array(max_batch, np.float64)
        self.d_inputs = cuda.device_array((3, max_batch), np.float64, stream=self.stream)
        self.d_prices = cuda.device_array(max_batch, np.float64, stream=self.stream)
        self.max_batch = max_batch

    def _chunk(self, spot, strike, years, rate: float, vol: float) -> np.ndarray:
        n = spot.size
        with self.stream.auto_synchronize():
            self.h_inputs[0, :n] = spot
            self.h_inputs[1, :n] = strike
            self.h_inputs[2, :n] = years
            for row in range(3):
                self.d_inputs[row].copy_to_device(self.h_inputs[row], stream=self.stream)
            blocks = (n + self.THREADS - 1) // self.THREADS
            _black_scholes[blocks, self.THREADS, self.stream](
                self.d_inputs[0],
                self.d_inputs[1],
                self.d_inputs[2],
                rate,
                vol,
                self.d_prices[:n],
            )
            self.d_prices.copy_to_host(self.h_prices, stream=self.stream)
        return self.h_prices[:n].copy()

    def price(self, spot, strike, years, rate=0.02, vol=0.3) -> np.ndarray:
        parts = []
        for start in range(0, spot.size, self.max_batch):
            part = slice(start, start + self.max_batch)
            parts.append(self._chunk(spot[part], strike[part], years[part], rate, vol))
        return np.concatenate(parts)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    count = 1_000_000
    pricer = OptionPricer(1 << 17)
    prices = pricer.price(
        rng.uniform(5, 30, count), rng.uniform(1, 100, count), rng.uniform(0.25, 10, count)
    )
    print(prices.mean())
