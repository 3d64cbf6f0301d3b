import asyncio

import numpy as np
from numba import cuda


@cuda.jit
def smooth(src, dst, radius):
    i = cuda.grid(1)
    n = src.size
    if i < n:
        total = 0.0
        for k in range(-radius, radius + 1):
            j = min(max(i + k, 0), n - 1)
            total += src[j]
        dst[i] = total / (2 * radius + 1)


class Worker:
    def __init__(self, size):
        self.stream = cuda.stream()
        self.host = cuda.pinned_array(size, dtype=np.float32)
        self.a = cuda.device_array(size, dtype=np.float32)
        self.b = cuda.device_array(size, dtype=np.float32)


class AsyncSmoother:
    """Serves smoothing requests concurrently, one worker per request in flight."""

    def __init__(self, size, workers=3):
        self.size = size
        self.idle = asyncio.Queue()
        for _ in range(workers):
            self.idle.put_nowait(Worker(size))

    async def smooth(self, signal, radius=2, passes=4):
        if len(signal) != self.size:
            raise ValueError("unexpected length")
        worker = await self.idle.get()
        try:
            worker.host[:] = signal
            src, dst = worker.a, worker.b
            src.copy_to_device(worker.host, stream=worker.stream)
            blocks = (self.size + 255) // 256
            for _ in range(passes):
                smooth[blocks, 256, worker.stream](src, dst, radius)
                src, dst = dst, src
            src.copy_to_host(worker.host, stream=worker.stream)
            await worker.stream.async_done()
            return worker.host.copy()
        finally:
            worker.stream.synchronize()
            self.idle.put_nowait(worker)


def reference(signal, radius=2, passes=4):
    for _ in range(passes):
        padded = np.pad(signal.astype(np.float64), radius, mode="edge")
        kernel = np.ones(2 * radius + 1) / (2 * radius + 1)
        signal = np.convolve(padded, kernel, mode="valid")
    return signal


async def serve():
    rng = np.random.default_rng(0)
    smoother = AsyncSmoother(20_000)
    signals = [rng.standard_normal(20_000).astype(np.float32) for _ in range(10)]
    results = await asyncio.gather(*[smoother.smooth(s) for s in signals])
    print(max(np.abs(r - reference(s)).max() for r, s in zip(results, signals)) < 1e-4)
    task = asyncio.create_task(smoother.smooth(signals[0], passes=200))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("cancelled")
    bad = await asyncio.gather(smoother.smooth(signals[0][:5]), return_exceptions=True)
    again = await smoother.smooth(signals[1], passes=0)
    print(type(bad[0]).__name__, bool((again == signals[1]).all()), smoother.idle.qsize())


if __name__ == "__main__":
    asyncio.run(serve())
