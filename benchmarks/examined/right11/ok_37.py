from __future__ import annotations

import asyncio
import math

import numpy as np
from numba import cuda

N = 1 << 18


@cuda.jit
def saxpy_clip(x, y, a, lo, hi):
    i = cuda.grid(1)
    if i < x.shape[0]:
        v = a * x[i] + y[i]
        y[i] = min(max(v, lo), hi)


class Workspace:
    def __init__(self) -> None:
        self.stream = cuda.stream()
        self.h_x = cuda.pinned_array(N, dtype=np.float32)
        self.h_y = cuda.pinned_array(N, dtype=np.float32)
        self.d_x = cuda.device_array(N, dtype=np.float32)
        self.d_y = cuda.device_array(N, dtype=np.float32)


class WorkspacePool:
    def __init__(self, size: int) -> None:
        self._free: asyncio.Queue[Workspace] = asyncio.Queue()
        for _ in range(size):
            self._free.put_nowait(Workspace())

    async def __aenter__(self) -> "WorkspacePool":
        return self

    async def __aexit__(self, *exc) -> None:
        cuda.synchronize()

    def lease(self) -> "Lease":
        return Lease(self._free)


class Lease:
    def __init__(self, free: asyncio.Queue) -> None:
        self._free = free

    async def __aenter__(self) -> Workspace:
        self._ws = await self._free.get()
        return self._ws

    async def __aexit__(self, *exc) -> None:
        await self._ws.stream.async_done()
        self._free.put_nowait(self._ws)


async def handle(pool: WorkspacePool, seed: int) -> float:
    rng = np.random.default_rng(seed)
    async with pool.lease() as ws:
        ws.h_x[:] = rng.random(N, dtype=np.float32)
        ws.h_y[:] = rng.random(N, dtype=np.float32)
        ws.d_x.copy_to_device(ws.h_x, stream=ws.stream)
        ws.d_y.copy_to_device(ws.h_y, stream=ws.stream)
        saxpy_clip[math.ceil(N / 256), 256, ws.stream](ws.d_x, ws.d_y, 2.0, 0.0, 2.5)
        ws.d_y.copy_to_host(ws.h_y, stream=ws.stream)
        await ws.stream.async_done()
        return float(ws.h_y.mean())


async def main() -> None:
    async with WorkspacePool(3) as pool:
        means = await asyncio.gather(*(handle(pool, seed) for seed in range(24)))
    print(min(means), max(means))


if __name__ == "__main__":
    asyncio.run(main())
