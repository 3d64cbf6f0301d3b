"""Gradient averaging in flat chunks, overlapped with backward."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class FlatChunk:
    def __init__(self, members, device):
        self.members = list(members)
        total = sum(p.numel() for p in self.members)
        self.storage = torch.zeros(total, device=device)
        self.views = []
        start = 0
        for p in self.members:
            self.views.append(self.storage.narrow(0, start, p.numel()).view_as(p))
            start += p.numel()
        self.missing = len(self.members)


class OverlappedAverager:
    def __init__(self, module, per_chunk, device):
        self.world_size = dist.get_world_size()
        self.side = torch.cuda.Stream(device)
        self.chunks = []
        self.where = {}
        trainable = [p for p in reversed(list(module.parameters())) if p.requires_grad]
        for i in range(0, len(trainable), per_chunk):
            chunk = FlatChunk(trainable[i:i + per_chunk], device)
            self.chunks.append(chunk)
            for slot, p in enumerate(chunk.members):
                self.where[p] = (chunk, slot)
                p.register_post_accumulate_grad_hook(self.on_grad)

    def on_grad(self, p):
        chunk, slot = self.where[p]
        chunk.views[slot].copy_(p.grad)
        chunk.missing -= 1
        if chunk.missing:
            return
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            chunk.storage.mul_(1.0 / self.world_size)
            dist.all_reduce(chunk.storage)

    def flush(self):
        self.side.wait_stream(torch.cuda.current_stream())
        for chunk in self.chunks:
            for p, view in zip(chunk.members, chunk.views):
                p.grad.copy_(view)
            chunk.missing = len(chunk.members)


def train(steps=200):
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    net = nn.Sequential(nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 2048)).to(device)
    averager = OverlappedAverager(net, per_chunk=2, device=device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
    for _ in range(steps):
        batch = torch.randn(64, 2048, device=device)
        opt.zero_grad()
        net(batch).square().mean().backward()
        averager.flush()
        opt.step()


if __name__ == "__main__":
    train()
