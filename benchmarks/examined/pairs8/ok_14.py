import asyncio
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class EmbeddingService:
    def __init__(self, dim=512):
        self.net = nn.Sequential(nn.Linear(dim, 4 * dim), nn.Tanh(), nn.Linear(4 * dim, dim)).cuda().eval()
        self.stream = torch.cuda.Stream()
        self.pool = ThreadPoolExecutor(max_workers=4)
        self.lock = asyncio.Lock()
        torch.cuda.synchronize()

    @torch.no_grad()
    def _launch(self, batch):
        with torch.cuda.stream(self.stream):
            x = batch.pin_memory().to("cuda", non_blocking=True)
            y = nn.functional.normalize(self.net(x), dim=-1)
            host = y.to("cpu", non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        return host, done

    async def embed(self, batch):
        async with self.lock:
            host, done = self._launch(batch)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self.pool, done.synchronize)
        return host.numpy()


async def client(service, n):
    vec = await service.embed(torch.randn(8, 512))
    return n, float(vec[0] @ vec[1])


async def main():
    service = EmbeddingService()
    results = await asyncio.gather(*(client(service, i) for i in range(50)))
    print(sorted(results)[:5])


if __name__ == "__main__":
    asyncio.run(main())
