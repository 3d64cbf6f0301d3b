import asyncio

import torch
from torch import nn


class AsyncServer:
    """Serves requests from an event loop; a fixed set of slots carries data in and out."""

    def __init__(self, net: nn.Module, width: int, classes: int, slots: int = 4):
        self.net = net.cuda().eval()
        self.stream = torch.cuda.Stream()
        self.inbox = torch.empty(slots, width, pin_memory=True)
        self.outbox = torch.empty(slots, classes, pin_memory=True)
        self.device_in = torch.empty(slots, width, device="cuda")
        self.events = [torch.cuda.Event(blocking=True) for _ in range(slots)]
        self.free: asyncio.Queue = asyncio.Queue()
        for s in range(slots):
            self.free.put_nowait(s)
        self.stream.wait_stream(torch.cuda.current_stream())

    def _launch(self, slot: int) -> torch.cuda.Event:
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            self.device_in[slot].copy_(self.inbox[slot], non_blocking=True)
            logits = self.net(self.device_in[slot:slot + 1])[0]
            self.outbox[slot].copy_(logits, non_blocking=True)
            self.events[slot].record()
        return self.events[slot]

    async def infer(self, row: torch.Tensor) -> int:
        slot = await self.free.get()
        try:
            self.inbox[slot].copy_(row)
            event = self._launch(slot)
            while not event.query():
                await asyncio.sleep(0)
            return int(self.outbox[slot].argmax())
        finally:
            self.events[slot].synchronize()
            self.free.put_nowait(slot)


async def client(server: AsyncServer, seed: int, n: int):
    gen = torch.Generator().manual_seed(seed)
    return [await server.infer(torch.randn(256, generator=gen)) for _ in range(n)]


async def main():
    net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10))
    server = AsyncServer(net, 256, 10)
    answers = await asyncio.gather(*(client(server, i, 50) for i in range(16)))
    print([a[:4] for a in answers[:3]])


if __name__ == "__main__":
    asyncio.run(main())
