"""Concurrent correlation requests awaited through Numba stream futures."""
from __future__ import annotations

import asyncio

import numpy as np
from numba import cuda


@cuda.jit
def correlate(signal, template, out):
    i = cuda.grid(1)
    if i >= out.shape[0]:
        return
    total = 0.0
    for k in range(template.shape[0]):
        total += signal[i + k] * template[k]
    out[i] = total


class Worker:
    def __init__(self, capacity: int, template: np.ndarray) -> None:
        self.stream = cuda.stream()
        self.signal = cuda.pinned_array(capacity, dtype=np.float32)
        self.result = cuda.pinned_array(capacity, dtype=np.float32)
        self.d_signal = cuda.device_array(capacity, dtype=np.float32)
        self.d_result = cuda.device_array(capacity, dtype=np.float32)
        self.d_template = cuda.to_device(template)

    def enqueue(self, data: np.ndarray) -> int:
        n = data.size
        m = n - self.d_template.size + 1
        self.signal[:n] = data
        self.d_signal[:n].copy_to_device(self.signal[:n], stream=self.stream)
        out = self.d_result[:m]
        correlate[-(-m // 128), 128, self.stream](self.d_signal[:n], self.d_template, out)
        out.copy_to_host(self.result[:m], stream=self.stream)
        return m


class CorrelationPool:
    def __init__(self, capacity: int, template: np.ndarray, workers: int = 3) -> None:
        self.capacity = capacity
        self.taps = template.size
        template = np.ascontiguousarray(template, dtype=np.float32)
        self.workers: asyncio.Queue[Worker] = asyncio.Queue()
        for _ in range(workers):
            self.workers.put_nowait(Worker(capacity, template))
        cuda.synchronize()

    async def correlate(self, data: np.ndarray) -> tuple[int, float]:
        if not self.taps <= data.size <= self.capacity:
            raise ValueError("bad signal length")
        worker = await self.workers.get()
        try:
            m = worker.enqueue(data)
            await worker.stream.async_done()
            view = worker.result[:m]
            best = int(view.argmax())
            return best, float(view[best])
        finally:
            worker.stream.synchronize()
            self.workers.put_nowait(worker)


async def main() -> None:
    rng = np.random.default_rng(5)
    template = np.hanning(64).astype(np.float32)
    pool = CorrelationPool(1 << 18, template)

    async def one(size: int) -> bool:
        data = 0.1 * rng.standard_normal(size).astype(np.float32)
        at = int(rng.integers(0, size - template.size))
        data[at:at + template.size] += 2 * template
        best, _ = await pool.correlate(data)
        return abs(best - at) <= 2

    hits = await asyncio.gather(*(one(int(rng.integers(1000, 1 << 18))) for _ in range(40)))
    print(sum(hits), "of", len(hits))


if __name__ == "__main__":
    asyncio.run(main())
