import asyncio
import math

import cupy
import numba.cuda
import numpy as np


@numba.cuda.jit
def incr(a, rounds):
    pos = numba.cuda.grid(1)
    if pos < a.size:
        value = a[pos]
        for i in range(rounds):
            value += 0.5 * value + pos % 7 - i % 3
            if value > 1.0e6:
                value -= 1.0e6
        a[pos] = value


class PinnedChunks:
    """Page-locked numpy arrays from CuPy's pinned pool."""

    def __init__(self, shape, dtype="float32"):
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.pool = cupy.get_default_pinned_memory_pool()

    def allocate(self):
        nbytes = math.prod(self.shape) * self.dtype.itemsize
        buffer = self.pool.malloc(nbytes)
        return np.ndarray(self.shape, dtype=self.dtype, buffer=buffer)


class StreamPool:
    """Hands every coroutine a stream of its own."""

    def __init__(self, size):
        self.free = asyncio.Queue()
        for _ in range(size):
            self.free.put_nowait(numba.cuda.stream())

    async def acquire(self):
        return await self.free.get()

    def release(self, stream):
        self.free.put_nowait(stream)


async def producer(chunks, index):
    host = chunks.allocate()
    host[:] = index + np.arange(host.size, dtype=host.dtype) % 11
    await asyncio.sleep(0)
    return host


async def pipeline(pool, chunks, index, rounds):
    stream = await pool.acquire()
    try:
        host = await producer(chunks, index)
        result = chunks.allocate()

        device = numba.cuda.to_device(host, stream=stream)
        blocks = (device.size + 255) // 256
        incr[blocks, 256, stream](device, rounds)
        device.copy_to_host(result, stream=stream)

        await stream.async_done()
        return index, float(result.sum(dtype=np.float64))
    finally:
        pool.release(stream)


async def main(n_chunks=160, n_streams=16, shape=(1 << 20,)):
    chunks = PinnedChunks(shape)
    pool = StreamPool(n_streams)

    warm = await pipeline(pool, chunks, 0, 1)
    print("warmup", warm)

    tasks = [asyncio.create_task(pipeline(pool, chunks, i, 200)) for i in range(n_chunks)]
    totals = np.zeros(n_chunks)
    for done in asyncio.as_completed(tasks):
        index, total = await done
        totals[index] = total
    print("sum", totals.sum())


if __name__ == "__main__":
    asyncio.run(main())
