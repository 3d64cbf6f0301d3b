"""Sharded parameters gathered per unit ahead of use and released after use."""
from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
import torch.nn.functional as F


class ShardedLinear:
    def __init__(self, weight: torch.Tensor, gather: torch.cuda.Stream):
        self.out_features, self.in_features = weight.shape
        world, rank = dist.get_world_size(), dist.get_rank()
        padded = -(-weight.numel() // world) * world
        flat = F.pad(weight.flatten(), (0, padded - weight.numel()))
        self.shard = flat.chunk(world)[rank].clone()
        self.padded = padded
        self._gather = gather
        self.shard.record_stream(gather)
        self._full: torch.Tensor | None = None
        self._ready: torch.cuda.Event | None = None

    def unshard(self) -> None:
        if self._full is not None:
            return
        self._gather.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._gather):
            full = torch.empty(self.padded, dtype=self.shard.dtype, device=self.shard.device)
            dist.all_gather_into_tensor(full, self.shard)
            self._ready = self._gather.record_event()
        self._full = full

    def reshard(self) -> None:
        if self._full is None:
            return
        self._gather.wait_stream(torch.cuda.current_stream())
        self._full = None
        self._ready = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.unshard()
        torch.cuda.current_stream().wait_event(self._ready)
        count = self.out_features * self.in_features
        return F.linear(x, self._full[:count].view(self.out_features, self.in_features))

    def blend(self, other: torch.Tensor, weight: float) -> None:
        torch.cuda.current_stream().wait_stream(self._gather)
        self.shard.lerp_(other, weight)
        self.reshard()


class ShardedStack:
    def __init__(self, weights: Sequence[torch.Tensor]):
        self._gather = torch.cuda.Stream()
        self.units = [ShardedLinear(w, self._gather) for w in weights]

    @torch.no_grad()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        try:
            for index, unit in enumerate(self.units):
                unit.unshard()
                if index + 1 < len(self.units):
                    self.units[index + 1].unshard()
                x = unit.forward(x).relu_()
                unit.reshard()
        finally:
            for unit in self.units:
                unit.reshard()
        return x

    @torch.no_grad()
    def blend(self, others: Sequence[torch.Tensor], weight: float) -> None:
        for unit, other in zip(self.units, others, strict=True):
            unit.blend(other, weight)


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    weights = [torch.randn(512, 512, device="cuda") / 512**0.5 for _ in range(8)]
    stack = ShardedStack(weights)
    for step in range(10):
        out = stack(torch.randn(64, 512, device="cuda"))
        if step % 3 == 2:
            stack.blend([torch.zeros_like(u.shard) for u in stack.units], 0.01)
    print(dist.get_rank(), out.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
