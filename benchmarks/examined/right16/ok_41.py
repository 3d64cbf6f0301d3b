"""Monte-Carlo pricing jobs served by asyncio on separate streams (Numba)."""
from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float32


@dataclass(frozen=True)
class Option:
    spot: float
    strike: float
    rate: float
    vol: float
    years: float


@cuda.jit
def _price(states, drift, diffusion, spot, strike, paths, payoff):
    i = cuda.grid(1)
    if i < payoff.shape[0]:
        total = 0.0
        for _ in range(paths):
            z = xoroshiro128p_normal_float32(states, i)
            total += max(spot * math.exp(drift + diffusion * z) - strike, 0.0)
        payoff[i] = total / paths


class Lane:
    def __init__(self, index: int, threads: int):
        self.threads = threads
        self.stream = cuda.stream()
        self.states = create_xoroshiro128p_states(threads, seed=1234 + index)
        self.payoff = cuda.device_array(threads, dtype=np.float64, stream=self.stream)
        self.host = cuda.pinned_array(threads, dtype=np.float64)
        cuda.synchronize()

    async def price(self, option: Option, paths: int) -> float:
        drift = (option.rate - 0.5 * option.vol**2) * option.years
        diffusion = option.vol * math.sqrt(option.years)
        _price[(self.threads + 127) // 128, 128, self.stream](
            self.states, drift, diffusion, option.spot, option.strike, paths, self.payoff
        )
        self.payoff.copy_to_host(self.host, stream=self.stream)
        await self.stream.async_done()
        return float(self.host.mean()) * math.exp(-option.rate * option.years)


class Pricer:
    def __init__(self, lanes: int = 3, threads: int = 8192, paths: int = 64):
        self.paths = paths
        self._lanes = [Lane(index, threads) for index in range(lanes)]

    async def price_all(self, options: list[Option]) -> list[float]:
        idle: asyncio.Queue[Lane] = asyncio.Queue()
        for lane in self._lanes:
            idle.put_nowait(lane)

        async def one(option: Option) -> float:
            lane = await idle.get()
            try:
                return await lane.price(option, self.paths)
            finally:
                lane.stream.synchronize()
                idle.put_nowait(lane)

        return list(await asyncio.gather(*(one(option) for option in options)))


def black_scholes(option: Option) -> float:
    scale = option.vol * math.sqrt(option.years)
    d1 = (math.log(option.spot / option.strike) + (option.rate + option.vol**2 / 2) * option.years) / scale
    cdf = lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2)))
    return option.spot * cdf(d1) - option.strike * math.exp(-option.rate * option.years) * cdf(d1 - scale)


def main() -> None:
    options = [Option(100.0, 80.0 + 5 * i, 0.03, 0.2, 1.0) for i in range(10)]
    prices = asyncio.run(Pricer().price_all(options))
    for option, price in zip(options, prices):
        print(option.strike, round(price, 3), round(black_scholes(option), 3))


if __name__ == "__main__":
    main()
