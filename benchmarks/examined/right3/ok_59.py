"""Tensor-parallel layers whose reductions finish on first use."""
from typing import Optional

import torch
import torch.distributed as dist
from torch import nn


class PendingReduce:
    def __init__(self, partial: torch.Tensor, group):
        self._tensor = partial
        self._work: Optional[dist.Work] = dist.all_reduce(partial, group=group, async_op=True)

    @property
    def tensor(self) -> torch.Tensor:
        if self._work is not None:
            self._work.wait()
            self._work = None
        return self._tensor


class RowParallel(nn.Module):
    def __init__(self, dim_in: int, dim_out: int, group):
        super().__init__()
        self.group = group
        self.weight = nn.Parameter(torch.randn(dim_out, dim_in // dist.get_world_size(group)) * 0.02)

    def forward(self, x_local: torch.Tensor) -> PendingReduce:
        return PendingReduce(nn.functional.linear(x_local, self.weight), self.group)


class ColumnParallel(nn.Module):
    def __init__(self, dim_in: int, dim_out: int, group):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim_out // dist.get_world_size(group), dim_in) * 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight)


class ParallelBlock(nn.Module):
    """Attention-free block with two branches reduced independently."""

    def __init__(self, dim: int, group):
        super().__init__()
        self.up_a, self.down_a = ColumnParallel(dim, 2 * dim, group), RowParallel(2 * dim, dim, group)
        self.up_b, self.down_b = ColumnParallel(dim, 4 * dim, group), RowParallel(4 * dim, dim, group)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        a = self.down_a(torch.tanh(self.up_a(h)))
        b = self.down_b(torch.relu(self.up_b(h)))
        residual = x + 0.1 * h
        return residual + a.tensor + b.tensor


@torch.no_grad()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    blocks = nn.ModuleList(ParallelBlock(1024, dist.group.WORLD) for _ in range(6)).cuda()
    x = torch.randn(8, 64, 1024, device="cuda")
    for _ in range(10):
        for block in blocks:
            x = block(x)
    print(dist.get_rank(), x.std().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
