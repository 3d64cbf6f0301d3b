"""Asyncio service on Numba streams: each request awaits its own stream."""
import asyncio

import numpy as np
from numba import cuda


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


class Worker:
    def __init__(self, n):
        self.n = n
        self.stream = cuda.stream()
        self.hx = cuda.pinned_array(n, dtype=np.float64)
        self.hy = cuda.pinned_array(n, dtype=np.float64)
        self.dx = cuda.device_array(n, dtype=np.float64, stream=self.stream)
        self.dy = cuda.device_array(n, dtype=np.float64, stream=self.stream)

    async def run(self, a, x, y):
        self.hx[:] = x
        self.hy[:] = y
        self.dx.copy_to_device(self.hx, stream=self.stream)
        self.dy.copy_to_device(self.hy, stream=self.stream)
        saxpy[(self.n + 127) // 128, 128, self.stream](a, self.dx, self.dy)
        self.dy.copy_to_host(self.hy, stream=self.stream)
        await self.stream.async_done()
        return self.hy.copy()


class Service:
    def __init__(self, n, workers):
        self.idle: asyncio.Queue = asyncio.Queue()
        for _ in range(workers):
            self.idle.put_nowait(Worker(n))

    async def request(self, a, x, y):
        worker = await self.idle.get()
        try:
            return await worker.run(a, x, y)
        finally:
            worker.stream.synchronize()
            self.idle.put_nowait(worker)


async def main(n=1 << 18, requests=24):
    service = Service(n, workers=4)
    rng = np.random.default_rng(0)
    jobs = [service.request(float(k), rng.random(n), rng.random(n)) for k in range(requests)]
    results = await asyncio.gather(*jobs)
    print([round(float(r.mean()), 3) for r in results[:5]])


if __name__ == "__main__":
    asyncio.run(main())
