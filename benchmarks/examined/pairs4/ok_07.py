"""Asyncio micro-batching embedding server."""
import asyncio

import numpy as np
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab=30000, dim=384):
        super().__init__()
        self.table = nn.EmbeddingBag(vocab, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, ids):
        return nn.functional.normalize(self.proj(self.table(ids)), dim=-1)


class BatchServer:
    def __init__(self, model, max_batch=32, length=64):
        self.model = model
        self.max_batch = max_batch
        self.length = length
        self.inbox: asyncio.Queue = asyncio.Queue()
        self.lane = torch.cuda.Stream()
        self.lane.wait_stream(torch.cuda.current_stream())

    async def embed(self, ids):
        fut = asyncio.get_running_loop().create_future()
        await self.inbox.put((ids, fut))
        return await fut

    async def _gather(self):
        items = [await self.inbox.get()]
        while len(items) < self.max_batch and not self.inbox.empty():
            items.append(self.inbox.get_nowait())
        return items

    @torch.inference_mode()
    def _launch(self, items):
        ids = torch.from_numpy(np.stack([i for i, _ in items])).pin_memory()
        with torch.cuda.stream(self.lane):
            vectors = self.model(ids.to("cuda", non_blocking=True))
            host = torch.empty(vectors.shape, pin_memory=True)
            host.copy_(vectors, non_blocking=True)
            done = torch.cuda.Event(blocking=True)
            done.record()
        return host, done

    async def serve(self):
        loop = asyncio.get_running_loop()
        while True:
            items = await self._gather()
            host, done = self._launch(items)
            await loop.run_in_executor(None, done.synchronize)
            for row, (_, fut) in zip(host.numpy(), items):
                fut.set_result(row.copy())


async def client(server, rng, n):
    total = 0.0
    for _ in range(n):
        ids = rng.integers(0, 30000, server.length)
        total += float((await server.embed(ids)).sum())
    return total


async def main():
    server = BatchServer(Encoder().cuda().eval())
    task = asyncio.create_task(server.serve())
    print(await asyncio.gather(*(client(server, np.random.default_rng(i), 50) for i in range(16))))
    task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
