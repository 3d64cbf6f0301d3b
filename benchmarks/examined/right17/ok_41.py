"""asyncio front end that awaits device completion per request."""
import asyncio
from typing import List

import numpy as np
from numba import cuda


@cuda.jit
def distance_kernel(points, query, out):
    i = cuda.grid(1)
    if i < points.shape[0]:
        total = 0.0
        for k in range(points.shape[1]):
            d = points[i, k] - query[k]
            total += d * d
        out[i] = total


class Worker:
    def __init__(self, count: int, dim: int):
        self.stream = cuda.stream()
        self.query = cuda.pinned_array(dim, dtype=np.float32)
        self.result = cuda.pinned_array(count, dtype=np.float32)
        self.d_query = cuda.device_array(dim, dtype=np.float32)
        self.d_result = cuda.device_array(count, dtype=np.float32)


class NearestService:
    def __init__(self, points: np.ndarray, workers: int = 4):
        points = np.ascontiguousarray(points, dtype=np.float32)
        self.count, self.dim = points.shape
        self.points = cuda.to_device(points)
        cuda.synchronize()
        self.workers = [Worker(self.count, self.dim) for _ in range(workers)]
        self.available: "asyncio.Queue[Worker]" = asyncio.Queue()
        for worker in self.workers:
            self.available.put_nowait(worker)

    async def nearest(self, query: np.ndarray, k: int) -> List[int]:
        worker = await self.available.get()
        try:
            worker.query[:] = query
            worker.d_query.copy_to_device(worker.query, stream=worker.stream)
            distance_kernel[(self.count + 127) // 128, 128, worker.stream](
                self.points, worker.d_query, worker.d_result)
            worker.d_result.copy_to_host(worker.result, stream=worker.stream)
            await worker.stream.async_done()
            order = np.argpartition(worker.result, min(k, self.count - 1))[:k]
            return order[np.argsort(worker.result[order])].tolist()
        finally:
            worker.stream.synchronize()
            self.available.put_nowait(worker)

    async def nearest_many(self, queries: np.ndarray, k: int) -> List[List[int]]:
        return list(await asyncio.gather(*(self.nearest(q, k) for q in queries)))

    async def first_within(self, queries: np.ndarray, k: int, timeout: float) -> List[List[int]]:
        tasks = [asyncio.ensure_future(self.nearest(q, k)) for q in queries]
        if not tasks:
            return []
        done, late = await asyncio.wait(tasks, timeout=timeout)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return [task.result() for task in tasks if task in done]


async def serve(points: np.ndarray, batches, k: int = 5) -> List[List[List[int]]]:
    service = NearestService(points)
    return [await service.nearest_many(batch, k) for batch in batches]
