"""Asyncio front end: each request owns a stream from a small pool while it runs."""
import asyncio

import numpy as np
from numba import cuda


@cuda.jit
def power_sum(x, exponent, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        cuda.atomic.add(out, 0, x[i] ** exponent)


class Lane:
    def __init__(self, n):
        self.stream = cuda.stream()
        self.host = cuda.pinned_array(n, dtype=np.float64)
        self.answer = cuda.pinned_array(1, dtype=np.float64)
        self.x = cuda.device_array(n, dtype=np.float64)
        self.out = cuda.device_array(1, dtype=np.float64)


class PowerServer:
    def __init__(self, n, lanes=3):
        self.n = n
        self._lanes = asyncio.Queue()
        for _ in range(lanes):
            self._lanes.put_nowait(Lane(n))

    async def __call__(self, values, exponent):
        if len(values) > self.n:
            raise ValueError("request is too long")
        lane = await self._lanes.get()
        try:
            lane.host[:] = 0.0
            lane.host[:len(values)] = values
            lane.answer[0] = 0.0
            lane.out.copy_to_device(lane.answer, stream=lane.stream)
            lane.x.copy_to_device(lane.host, stream=lane.stream)
            power_sum[(self.n + 127) // 128, 128, lane.stream](
                lane.x, exponent, lane.out)
            lane.out.copy_to_host(lane.answer, stream=lane.stream)
            await lane.stream.async_done()
            return float(lane.answer[0])
        finally:
            lane.stream.synchronize()
            self._lanes.put_nowait(lane)


async def run():
    rng = np.random.default_rng(0)
    server = PowerServer(4096)
    requests = [(rng.random(size), exponent)
                for size, exponent in zip((10, 4096, 500, 77, 2048, 3, 4000), range(1, 8))]
    answers = await asyncio.gather(*(server(v, e) for v, e in requests))
    for (values, exponent), answer in zip(requests, answers):
        np.testing.assert_allclose(answer, (values ** exponent).sum(), rtol=1e-9)
    try:
        await asyncio.wait_for(server(np.ones(4096), 2), timeout=1e-4)
    except asyncio.TimeoutError:
        pass
    return await server(np.ones(100), 3)


if __name__ == "__main__":
    print(asyncio.run(run()))
