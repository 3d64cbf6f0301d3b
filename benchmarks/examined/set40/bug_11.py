"""Sequence-parallel LoRA block: the gather of the activations overlaps with the adapter path."""
import os
from dataclasses import dataclass
from typing import Optional

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class PendingCollective:
    """A launched collective and the tensor that holds its result."""

    tensor: torch.Tensor
    work: Optional[dist.Work] = None

    def wait(self):
        if self.work is not None:
            self.work.wait()
            self.work = None
        return self.tensor


def gather_along(x, dim, group, async_op=False):
    world = dist.get_world_size(group)
    x0 = x.movedim(dim, 0).contiguous()
    out0 = torch.empty(world * x0.shape[0], *x0.shape[1:], dtype=x0.dtype, device=x0.device)
    work = dist.all_gather_into_tensor(out0, x0, group=group, async_op=async_op)
    if dim == 0:
        return PendingCollective(out0, work)
    result = out0.movedim(0, dim).contiguous()
    return PendingCollective(result, work)


def reduce_scatter_along(x, dim, group):
    world = dist.get_world_size(group)
    x0 = x.movedim(dim, 0).contiguous()
    out0 = torch.empty(x0.shape[0] // world, *x0.shape[1:], dtype=x0.dtype, device=x0.device)
    dist.reduce_scatter_tensor(out0, x0, group=group)
    return out0.movedim(0, dim)


class LoRAColumnLinear(nn.Module):
    def __init__(self, dim, out_dim, rank, group):
        super().__init__()
        world = dist.get_world_size(group)
        self.group = group
        self.base = nn.Linear(dim, out_dim // world, bias=False).requires_grad_(False)
        self.down = nn.Linear(dim, rank, bias=False)
        self.up = nn.Linear(rank, out_dim // world, bias=False)

    def forward(self, x_local):
        pending = gather_along(x_local, 1, self.group, async_op=True)
        low = self.down(x_local)
        low_full = gather_along(low, 1, self.group).wait()
        full = pending.wait()
        return self.base(full) + self.up(low_full)


class SPMlp(nn.Module):
    def __init__(self, dim, hidden, rank, group):
        super().__init__()
        self.group = group
        self.fc1 = LoRAColumnLinear(dim, hidden, rank, group)
        self.fc2 = nn.Linear(hidden // dist.get_world_size(group), dim, bias=False)

    def forward(self, x_local):
        h = torch.nn.functional.gelu(self.fc1(x_local))
        return x_local + reduce_scatter_along(self.fc2(h), 1, self.group)


@torch.inference_mode()
def run(steps=20, batch=4, seq=4096, dim=2048, hidden=8192, rank=32, layers=4):
    rank_id = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank_id)
    dist.init_process_group("nccl")
    group = dist.group.WORLD
    world = dist.get_world_size()
    torch.manual_seed(0)
    net = nn.ModuleList(SPMlp(dim, hidden, rank, group) for _ in range(layers)).cuda().half()
    x = torch.randn(batch, seq // world, dim, device="cuda", dtype=torch.half)
    total = torch.zeros((), device="cuda")
    for _ in range(steps):
        h = x
        for layer in net:
            h = layer(h)
        total += h.float().square().mean()
    dist.all_reduce(total)
    torch.cuda.synchronize()
    if rank_id == 0:
        print("mean energy", total.item() / (steps * world))
    dist.destroy_process_group()


if __name__ == "__main__":
    run()
