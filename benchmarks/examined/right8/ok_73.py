"""Asyncio futures resolved from CuPy host functions."""
import asyncio

import cupy as cp
import cupyx
import numpy as np


class AsyncEngine:
    def __init__(self, n, slots=2):
        self.loop = asyncio.get_running_loop()
        self.n = n
        self.slots = asyncio.Queue()
        for _ in range(slots):
            self.slots.put_nowait((cp.cuda.Stream(non_blocking=True),
                                   cupyx.empty_pinned(n, np.float32),
                                   cp.empty(n, cp.float32)))

    def _settle(self, future):
        self.loop.call_soon_threadsafe(future.set_result, None)

    def _enqueue(self, stream, host, dev, values):
        host[:] = values
        future = self.loop.create_future()
        with stream:
            dev.set(host, stream=stream)
            cp.sqrt(dev, out=dev)
            dev[...] = cp.cumsum(dev)
            dev.get(stream=stream, out=host, blocking=False)
            stream.launch_host_func(self._settle, future)
        return future

    async def __call__(self, values):
        slot = await self.slots.get()
        stream, host, dev = slot
        future = self._enqueue(stream, host, dev, values)
        await future
        result = host.copy()
        self.slots.put_nowait(slot)
        return result


async def main(n=1 << 16, requests=9):
    engine = AsyncEngine(n)
    jobs = [engine(np.full(n, k, np.float32)) for k in range(requests)]
    results = await asyncio.gather(*jobs)
    return [float(r[-1]) for r in results]


if __name__ == "__main__":
    print(asyncio.run(main()))
