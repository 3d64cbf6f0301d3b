"""An asyncio pipeline: host producer, copier, and a Numba consumer."""
import asyncio

import cupy as cp
import numba.cuda
import numpy as np


@numba.cuda.jit
def iterate(a, rounds):
    pos = numba.cuda.grid(1)
    if pos < a.size:
        x = a[pos]
        for _ in range(rounds):
            x = 3.7 * x * (1.0 - x)
        a[pos] = x


class Slot:
    def __init__(self, n: int):
        mem = cp.cuda.alloc_pinned_memory(n * 8)
        self.host = np.frombuffer(mem, dtype=np.float64, count=n)
        self.dev = cp.empty(n, dtype=cp.float64)
        self.copied = None


class Pipeline:
    def __init__(self, n: int, slots: int):
        self.n = n
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.numba_compute = numba.cuda.external_stream(self.compute.ptr)
        self.free: asyncio.Queue = asyncio.Queue()
        self.loaded: asyncio.Queue = asyncio.Queue()
        for _ in range(slots):
            self.free.put_nowait(Slot(n))
        with self.compute:
            self.total = cp.zeros((), dtype=cp.float64)

    async def copier(self, source) -> None:
        async for chunk in source:
            slot = await self.free.get()
            slot.host[:] = chunk
            slot.dev.set(slot.host, stream=self.copy)
            slot.copied = self.copy.record()
            await self.loaded.put(slot)
        await self.loaded.put(None)

    async def consumer(self) -> None:
        while (slot := await self.loaded.get()) is not None:
            self.compute.wait_event(slot.copied)
            iterate[(self.n + 127) // 128, 128, self.numba_compute](slot.dev, 500)
            with self.compute:
                self.total += slot.dev.sum()
                finished = self.compute.record()
            await asyncio.to_thread(finished.synchronize)
            self.free.put_nowait(slot)

    def result(self) -> float:
        with self.compute:
            return float(self.total)


async def chunks(n: int, count: int):
    rng = np.random.default_rng(0)
    for _ in range(count):
        await asyncio.sleep(0)
        yield rng.random(n)


async def main():
    pipe = Pipeline(1 << 20, slots=3)
    await asyncio.gather(pipe.copier(chunks(pipe.n, 24)), pipe.consumer())
    print(pipe.result())


if __name__ == "__main__":
    asyncio.run(main())
