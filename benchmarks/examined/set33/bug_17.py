"""Chunked gradient reduction: gradients are copied into flat chunks, each chunk is reduced when full."""
from typing import Dict, List, Optional

import torch
import torch.distributed as dist
from torch import nn


class GradChunk:
    def __init__(self, params: List[nn.Parameter], group, dtype=torch.bfloat16):
        self.group = group
        self.world = dist.get_world_size(group)
        device = params[0].device
        total = sum(p.numel() for p in params)
        padded = (total + self.world - 1) // self.world * self.world
        self.payload = torch.zeros(padded, dtype=dtype, device=device)
        self.shard = torch.zeros(padded // self.world, dtype=dtype, device=device)
        self.main_grad = torch.zeros(padded // self.world, dtype=torch.float32, device=device)
        self.views: Dict[int, torch.Tensor] = {}
        offset = 0
        for p in params:
            self.views[id(p)] = self.payload[offset : offset + p.numel()].view(p.shape)
            offset += p.numel()
        self.todo = set(self.views)
        self.work: Optional[dist.Work] = None

    def copy_grad(self, p):
        self.views[id(p)].copy_(p.grad)
        p.grad = None
        self.todo.discard(id(p))
        return not self.todo

    def reduce(self, async_op):
        self.payload.div_(self.world)
        self.work = dist.reduce_scatter_tensor(
            self.shard, self.payload, group=self.group, async_op=async_op
        )

    def add_to_main_grad(self):
        self.main_grad.add_(self.shard)

    def wait(self):
        if self.work is not None:
            self.work.wait()
            self.work = None

    def reset(self):
        self.todo = set(self.views)


class ChunkedDDP(nn.Module):
    def __init__(self, module, chunk_size=16, group=None, enable_async_reduce=True):
        super().__init__()
        self.module = module
        self.enable_async_reduce = enable_async_reduce
        params = [p for p in module.parameters() if p.requires_grad]
        self.chunks = [
            GradChunk(params[i : i + chunk_size], group) for i in range(0, len(params), chunk_size)
        ]
        self.masters = [nn.Parameter(torch.zeros_like(c.main_grad)) for c in self.chunks]
        self.owner = {pid: chunk for chunk in self.chunks for pid in chunk.views}
        for p in params:
            p.register_post_accumulate_grad_hook(self._grad_hook)

    def forward(self, *args):
        return self.module(*args)

    def _grad_hook(self, p):
        chunk = self.owner[id(p)]
        if chunk.copy_grad(p):
            chunk.reduce(self.enable_async_reduce)
            chunk.add_to_main_grad()

    def backward(self, loss):
        loss.backward()
        for chunk in self.chunks:
            chunk.wait()
            chunk.reset()


def accumulate(model, optimizer, batches, loss_fn):
    """Optimizer over `model.masters`; returns after one update of the fp32 shards."""
    for x, y in batches:
        model.backward(loss_fn(model(x), y))
    for master, chunk in zip(model.masters, model.chunks):
        master.grad = chunk.main_grad
    optimizer.step()
    for chunk in model.chunks:
        chunk.main_grad.zero_()
