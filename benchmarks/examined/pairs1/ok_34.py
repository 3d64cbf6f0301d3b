"""Asyncio front end: coroutines poll the copy event of their request."""
import asyncio
from dataclasses import dataclass

import torch


@dataclass
class Ticket:
    logprobs: torch.Tensor
    event: torch.cuda.Event

    async def result(self):
        while not self.event.query():
            await asyncio.sleep(0.0005)
        return self.logprobs.tolist()


class LogprobService:
    def __init__(self, dim=1024, vocab=32000):
        self.head = torch.randn(dim, vocab, device="cuda")
        self.d2h = torch.cuda.Stream()

    def submit(self, hidden, k=5):
        main = torch.cuda.current_stream()
        top = (hidden @ self.head).log_softmax(-1).topk(k).values
        self.d2h.wait_stream(main)
        with torch.cuda.stream(self.d2h):
            host = torch.empty(top.shape, pin_memory=True)
            host.copy_(top, non_blocking=True)
            event = self.d2h.record_event()
        top.record_stream(self.d2h)
        return Ticket(host, event)


async def client(service, n):
    total = 0.0
    for _ in range(n):
        hidden = torch.randn(8, 1024, device="cuda")
        rows = await service.submit(hidden).result()
        total += sum(map(sum, rows))
    return total


async def main(clients=8):
    service = LogprobService()
    print(await asyncio.gather(*(client(service, 20) for _ in range(clients))))


if __name__ == "__main__":
    asyncio.run(main())
