import asyncio

import torch
from monarch.actor import Actor, endpoint
from monarch.rdma import RDMABuffer
from torch import nn


class PackedWeights:
    """A flat device buffer that other processes read through RDMA."""

    def __init__(self, specs, device):
        self.offsets, total = {}, 0
        for name, shape in specs:
            self.offsets[name] = (total, shape)
            total += shape.numel()
        self.flat = torch.zeros(total, dtype=torch.bfloat16, device=device)
        self.handle = RDMABuffer(self.flat.view(torch.uint8))
        self.packed = torch.cuda.Event()
        self.readers = 0

    def views(self):
        for name, (start, shape) in self.offsets.items():
            yield name, self.flat[start : start + shape.numel()].view(shape)


class Trainer(Actor):
    def __init__(self, hidden, depth, lr):
        self.model = nn.Sequential(*(nn.Linear(hidden, hidden) for _ in range(depth))).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        specs = [(n, p.shape) for n, p in self.model.named_parameters()]
        self.buffers = [PackedWeights(specs, "cuda") for _ in range(2)]
        self.publish_stream = torch.cuda.Stream()
        self.publish_stream.wait_stream(torch.cuda.current_stream())
        self.version = -1
        self.released = asyncio.Condition()

    @endpoint
    async def step(self, batch):
        x = batch.cuda(non_blocking=True)
        loss = (self.model(x) - x).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    @endpoint
    async def publish(self):
        target = self.buffers[(self.version + 1) % len(self.buffers)]
        async with self.released:
            await self.released.wait_for(lambda: target.readers == 0)
        params = dict(self.model.named_parameters())
        self.publish_stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(self.publish_stream):
            for name, view in target.views():
                view.copy_(params[name])
            target.packed.record()
        torch.cuda.current_stream().wait_event(target.packed)
        await asyncio.to_thread(target.packed.synchronize)
        self.version += 1
        return self.version

    @endpoint
    async def acquire(self):
        index = self.version % len(self.buffers)
        self.buffers[index].readers += 1
        return self.version, index, self.buffers[index].handle

    @endpoint
    async def release(self, index):
        async with self.released:
            self.buffers[index].readers -= 1
            self.released.notify_all()


class Generator(Actor):
    def __init__(self, trainer, hidden, depth):
        self.trainer = trainer
        self.model = nn.Sequential(*(nn.Linear(hidden, hidden) for _ in range(depth))).cuda().bfloat16()
        total = sum(p.numel() for p in self.model.parameters())
        self.staging = torch.zeros(total, dtype=torch.bfloat16, device="cuda")

    @endpoint
    async def refresh(self):
        torch.cuda.synchronize()
        version, index, handle = await self.trainer.acquire.call_one()
        await handle.read_into(self.staging.view(torch.uint8))
        await self.trainer.release.call_one(index)
        start = 0
        with torch.no_grad():
            for p in self.model.parameters():
                p.copy_(self.staging[start : start + p.numel()].view_as(p))
                start += p.numel()
        return version

    @endpoint
    async def generate(self, prompt):
        with torch.inference_mode():
            return self.model(prompt.cuda().bfloat16()).float().cpu()
