from dataclasses import dataclass
from typing import Callable, Optional

import torch
import torch.distributed as dist


@dataclass
class PendingCollective:
    """A launched collective whose output tensor becomes valid after ``wait()``."""

    tensor: torch.Tensor
    work: Optional[dist.Work] = None
    finalize: Optional[Callable[[torch.Tensor], torch.Tensor]] = None

    def wait(self) -> torch.Tensor:
        if self.work is not None:
            self.work.wait()
            self.work = None
        if self.finalize is not None:
            self.tensor = self.finalize(self.tensor)
            self.finalize = None
        return self.tensor


def _world(group) -> int:
    return dist.get_world_size(group) if dist.is_initialized() else 1


def all_gather_sequence_async(x: torch.Tensor, seq_dim: int = 1, group=None) -> PendingCollective:
    world = _world(group)
    if world == 1:
        return PendingCollective(x)
    shard = x.transpose(0, seq_dim).contiguous() if seq_dim != 0 else x.contiguous()
    out_shape = (world * shard.shape[0], *shard.shape[1:])
    output0 = torch.empty(out_shape, dtype=shard.dtype, device=shard.device)
    work = dist.all_gather_into_tensor(output0, shard, group=group, async_op=True)
    finalize = None
    if seq_dim != 0:
        finalize = lambda t: t.transpose(0, seq_dim).contiguous()
    return PendingCollective(output0, work, finalize)


def reduce_scatter_sequence(x: torch.Tensor, seq_dim: int = 1, group=None) -> torch.Tensor:
    world = _world(group)
    if world == 1:
        return x
    full = x.transpose(0, seq_dim).contiguous()
    out = torch.empty((full.shape[0] // world, *full.shape[1:]), dtype=x.dtype, device=x.device)
    dist.reduce_scatter_tensor(out, full, group=group)
    return out.transpose(0, seq_dim).contiguous()


class LoRAColumnParallel(torch.nn.Module):
    def __init__(self, base: torch.nn.Linear, rank: int, alpha: float, group=None):
        super().__init__()
        self.base = base
        self.down = torch.nn.Linear(base.in_features, rank, bias=False)
        self.up = torch.nn.Linear(rank, base.out_features, bias=False)
        self.scale = alpha / rank
        self.group = group

    def forward(self, pending: PendingCollective, local: torch.Tensor) -> torch.Tensor:
        low = self.down(local)
        low_full = all_gather_sequence_async(low, 1, self.group)
        x = pending.wait()
        out = self.base(x)
        return out + self.up(low_full.wait()) * self.scale


class SequenceParallelBlock(torch.nn.Module):
    def __init__(self, norm: torch.nn.Module, fc1: LoRAColumnParallel, fc2: torch.nn.Linear, group=None):
        super().__init__()
        self.norm = norm
        self.fc1 = fc1
        self.fc2 = fc2
        self.group = group

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        pending = all_gather_sequence_async(h, 1, self.group)
        y = self.fc1(pending, h)
        y = self.fc2(torch.nn.functional.gelu(y))
        return x + reduce_scatter_sequence(y, 1, self.group)
