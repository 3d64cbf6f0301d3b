import asyncio
from concurrent.futures import ThreadPoolExecutor

import torch


class Slot:
    def __init__(self, batch, dim, classes):
        self.input = torch.empty(batch, dim, pin_memory=True)
        self.output = torch.empty(batch, classes, pin_memory=True)
        self.done = torch.cuda.Event()


class Batcher:
    def __init__(self, model, batch=16, dim=128, classes=10, slots=2):
        self.model, self.batch = model, batch
        self.requests = asyncio.Queue()
        self.slots = asyncio.Queue()
        for _ in range(slots):
            self.slots.put_nowait(Slot(batch, dim, classes))
        self.waiters = ThreadPoolExecutor(slots)
        self.tasks = set()

    async def infer(self, vector):
        future = asyncio.get_running_loop().create_future()
        await self.requests.put((vector, future))
        return await future

    async def _gather(self):
        items = [await self.requests.get()]
        while len(items) < self.batch:
            try:
                items.append(self.requests.get_nowait())
            except asyncio.QueueEmpty:
                break
        return items

    @torch.inference_mode()
    def _launch(self, slot, n):
        dev = slot.input[:n].to("cuda", non_blocking=True)
        slot.output[:n].copy_(self.model(dev), non_blocking=True)
        slot.done.record()

    async def _finish(self, slot, items):
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self.waiters, slot.done.synchronize)
        rows = slot.output[:len(items)].tolist()
        self.slots.put_nowait(slot)
        for (_, future), row in zip(items, rows):
            future.set_result(row)

    async def run(self):
        while True:
            items = await self._gather()
            slot = await self.slots.get()
            for i, (vector, _) in enumerate(items):
                slot.input[i].copy_(vector)
            self._launch(slot, len(items))
            task = asyncio.create_task(self._finish(slot, items))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)


async def main():
    batcher = Batcher(torch.nn.Linear(128, 10).cuda())
    server = asyncio.create_task(batcher.run())
    rows = await asyncio.gather(*(batcher.infer(torch.randn(128)) for _ in range(200)))
    server.cancel()
    return rows


if __name__ == "__main__":
    asyncio.run(main())
