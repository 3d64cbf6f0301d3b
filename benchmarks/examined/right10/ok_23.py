"""Request scheduler: sampled tokens are fetched by asyncio tasks that poll CUDA events."""
from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import torch


@dataclass
class Request:
    rid: int
    length: int
    tokens: list[int] = field(default_factory=list)
    future: asyncio.Future | None = None


@dataclass
class Sent:
    requests: list[Request]
    host: torch.Tensor
    event: torch.cuda.Event


async def passed(event: torch.cuda.Event, pause: float = 2e-4):
    while not event.query():
        await asyncio.sleep(pause)


class Scheduler:
    def __init__(self, vocab: int = 1000, dim: int = 128):
        self.emb = torch.nn.Embedding(vocab, dim).cuda()
        self.head = torch.nn.Linear(dim, vocab).cuda()
        self.running: list[Request] = []
        self.outbox: asyncio.Queue[Sent | None] = asyncio.Queue()

    @torch.inference_mode()
    def _forward(self) -> Sent:
        last = [r.tokens[-1] if r.tokens else r.rid for r in self.running]
        ids = torch.tensor(last, pin_memory=True).to("cuda", non_blocking=True)
        choice = torch.multinomial(torch.softmax(self.head(self.emb(ids)), -1), 1).squeeze(-1)
        host = torch.empty(choice.shape, dtype=choice.dtype, pin_memory=True)
        host.copy_(choice, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return Sent(list(self.running), host, event)

    async def _deliver(self):
        while (sent := await self.outbox.get()) is not None:
            await passed(sent.event)
            for r, tok in zip(sent.requests, sent.host.tolist()):
                r.tokens.append(tok)
                if len(r.tokens) >= r.length and not r.future.done():
                    r.future.set_result(r.tokens)
            self.outbox.task_done()
        self.outbox.task_done()

    async def loop(self, todo: list[Request]):
        reader = asyncio.create_task(self._deliver())
        for r in todo:
            r.future = asyncio.get_running_loop().create_future()
        self.running = list(todo)
        while self.running:
            await self.outbox.put(self._forward())
            await self.outbox.join()
            self.running = [r for r in self.running if not r.future.done()]
        await self.outbox.put(None)
        await reader
        return await asyncio.gather(*(r.future for r in todo))


async def main():
    done = await Scheduler().loop([Request(i, 5 + i) for i in range(8)])
    for row in done:
        print(row)


if __name__ == "__main__":
    asyncio.run(main())
