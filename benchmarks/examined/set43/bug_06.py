"""Sharded inference: parameters are gathered one unit ahead into a two-slot ring."""
import os
from typing import List

import torch
import torch.distributed as dist
import torch.nn.functional as F


class Unit:
    def __init__(self, width: int, rank: int, world: int, device):
        self.width = width
        full = width * width * 2
        assert full % world == 0
        gen = torch.Generator(device=device).manual_seed(rank)
        self.shard = torch.randn(full // world, device=device, generator=gen) * 0.02

    def compute(self, flat: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        w = flat.view(2, self.width, self.width)
        return x + F.linear(F.gelu(F.linear(x, w[0])), w[1])


class GatherRing:
    def __init__(self, units: List[Unit], numel: int, device, slots: int = 2):
        self.units = units
        self.slots = [torch.empty(numel, device=device) for _ in range(slots)]
        self.ready = [torch.cuda.Event() for _ in range(slots)]
        self.ag_stream = torch.cuda.Stream(device=device, priority=-1)

    def start(self):
        self.ag_stream.wait_stream(torch.cuda.current_stream())
        self.prefetch(0)

    def prefetch(self, index: int):
        if index >= len(self.units):
            return
        slot = index % len(self.slots)
        with torch.cuda.stream(self.ag_stream):
            dist.all_gather_into_tensor(self.slots[slot], self.units[index].shard)
            self.ready[slot].record(self.ag_stream)

    def acquire(self, index: int) -> torch.Tensor:
        slot = index % len(self.slots)
        torch.cuda.current_stream().wait_event(self.ready[slot])
        return self.slots[slot]


class ShardedModel:
    def __init__(self, layers: int, width: int, device):
        rank, world = dist.get_rank(), dist.get_world_size()
        self.units = [Unit(width, rank, world, device) for _ in range(layers)]
        self.ring = GatherRing(self.units, 2 * width * width, device)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.ring.start()
        for i, unit in enumerate(self.units):
            flat = self.ring.acquire(i)
            self.ring.prefetch(i + 1)
            x = unit.compute(flat, x)
        return x


def main():
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    model = ShardedModel(layers=12, width=2048, device=device)
    for step in range(4):
        x = torch.randn(4096, 2048, device=device)
        y = model.forward(x)
        norm = y.norm()
        dist.all_reduce(norm)
        if dist.get_rank() == 0:
            print(step, norm.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
