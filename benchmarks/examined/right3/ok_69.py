"""Numba streams awaited from asyncio tasks."""
import asyncio

import numpy as np
from numba import cuda


@cuda.jit
def horner(x, coeffs, y):
    i = cuda.grid(1)
    if i < x.size:
        acc = 0.0
        for k in range(coeffs.size):
            acc = acc * x[i] + coeffs[k]
        y[i] = acc


class Lane:
    def __init__(self, n: int, coeffs):
        self.stream = cuda.stream()
        self.coeffs = coeffs
        self.h_x = cuda.pinned_array(n, dtype=np.float64)
        self.h_y = cuda.pinned_array(n, dtype=np.float64)
        self.d_x = cuda.device_array(n, dtype=np.float64, stream=self.stream)
        self.d_y = cuda.device_array(n, dtype=np.float64, stream=self.stream)
        self.grid = (n + 127) // 128

    async def evaluate(self, x: np.ndarray) -> float:
        self.h_x[:] = x
        self.d_x.copy_to_device(self.h_x, stream=self.stream)
        horner[self.grid, 128, self.stream](self.d_x, self.coeffs, self.d_y)
        self.d_y.copy_to_host(self.h_y, stream=self.stream)
        await self.stream.async_done()
        return float(self.h_y.sum())


class PolynomialService:
    def __init__(self, n: int, degree: int, lanes: int):
        self.coeffs = cuda.to_device(np.linspace(-1.0, 1.0, degree + 1))
        cuda.synchronize()
        self.idle: asyncio.Queue = asyncio.Queue()
        for _ in range(lanes):
            self.idle.put_nowait(Lane(n, self.coeffs))

    async def request(self, x: np.ndarray) -> float:
        lane = await self.idle.get()
        try:
            return await lane.evaluate(x)
        finally:
            lane.stream.synchronize()
            self.idle.put_nowait(lane)


async def main(n: int = 1 << 16):
    service = PolynomialService(n, degree=12, lanes=3)
    rng = np.random.default_rng(6)
    inputs = [rng.uniform(-1, 1, n) for _ in range(30)]
    sums = await asyncio.gather(*(service.request(x) for x in inputs))
    print(sum(sums))


if __name__ == "__main__":
    asyncio.run(main())
