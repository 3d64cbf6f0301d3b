"""Asynchronous request lanes awaited from an event loop (Numba + asyncio)."""
import asyncio

import numpy as np
from numba import cuda


@cuda.jit
def polynomial(x, coeffs, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        acc = 0.0
        for c in range(coeffs.shape[0]):
            acc = acc * x[i] + coeffs[c]
        y[i] = acc


class Lane:
    def __init__(self, size, coeffs):
        self.stream = cuda.stream()
        self.x_host = cuda.pinned_array(size, dtype=np.float64)
        self.y_host = cuda.pinned_array(size, dtype=np.float64)
        self.x = cuda.device_array(size, dtype=np.float64)
        self.y = cuda.device_array(size, dtype=np.float64)
        self.coeffs = cuda.to_device(np.asarray(coeffs, dtype=np.float64))

    async def evaluate(self, values):
        n = len(values)
        self.x_host[:n] = values
        self.x[:n].copy_to_device(self.x_host[:n], stream=self.stream)
        polynomial[-(-n // 128), 128, self.stream](self.x[:n], self.coeffs, self.y[:n])
        self.y[:n].copy_to_host(self.y_host[:n], stream=self.stream)
        await self.stream.async_done()
        return self.y_host[:n].copy()

    def settle(self):
        self.stream.synchronize()


class PolynomialService:
    def __init__(self, coeffs, size=1 << 16, lanes=4):
        self.size = size
        self.idle = asyncio.Queue()
        for _ in range(lanes):
            self.idle.put_nowait(Lane(size, coeffs))

    async def _chunk(self, values):
        lane = await self.idle.get()
        try:
            return await lane.evaluate(values)
        finally:
            lane.settle()
            self.idle.put_nowait(lane)

    async def __call__(self, values):
        values = np.asarray(values, dtype=np.float64)
        if values.size == 0:
            return values
        chunks = [
            self._chunk(values[i : i + self.size])
            for i in range(0, values.size, self.size)
        ]
        return np.concatenate(await asyncio.gather(*chunks))


async def serve(requests, coeffs, timeout=30.0):
    service = PolynomialService(coeffs)
    answers = []
    for request in requests:
        try:
            answers.append(await asyncio.wait_for(service(request), timeout))
        except asyncio.TimeoutError:
            answers.append(None)
    return answers


def main(requests, coeffs=(1.0, -2.0, 0.5)):
    return asyncio.run(serve(requests, coeffs))
