"""Asyncio front end over a GPU model."""
import asyncio
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class AsyncEngine:
    def __init__(self, model: nn.Module):
        self.model = model.cuda().eval()
        self.copy_stream = torch.cuda.Stream()
        self.waiters = ThreadPoolExecutor(4)
        self.lock = asyncio.Lock()

    @torch.inference_mode()
    def _launch(self, x: torch.Tensor):
        logits = self.model(x.cuda())
        host = torch.empty(logits.shape, pin_memory=True)
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            host.copy_(logits, non_blocking=True)
            done = self.copy_stream.record_event()
        logits.record_stream(self.copy_stream)
        return host, done

    async def infer(self, x: torch.Tensor) -> torch.Tensor:
        async with self.lock:
            host, done = self._launch(x)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self.waiters, done.synchronize)
        return host


async def client(engine: AsyncEngine, idx: int):
    out = await engine.infer(torch.full((4, 64), float(idx)))
    return out.sum().item()


async def main():
    engine = AsyncEngine(nn.Linear(64, 32))
    sums = await asyncio.gather(*(client(engine, i) for i in range(32)))
    print(max(sums))


if __name__ == "__main__":
    asyncio.run(main())
