"""Sharded inference: flat parameters are gathered per layer and dropped after use."""
from typing import List, Optional

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class FlatLayer:
    def __init__(self, linear: nn.Linear, device: torch.device, gather: torch.cuda.Stream):
        world, rank = dist.get_world_size(), dist.get_rank()
        flat = torch.cat([linear.weight.detach().reshape(-1), linear.bias.detach()]).to(device)
        pad = -flat.numel() % world
        self.shape = linear.weight.shape
        self.shard = F.pad(flat, (0, pad)).chunk(world)[rank].clone()
        self.world = world
        self.device = device
        self.gather = gather
        self.gathered = torch.cuda.Event()
        self.full: Optional[torch.Tensor] = None

    def unshard(self) -> None:
        if self.full is not None:
            return
        self.gather.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.gather):
            full = torch.empty(self.world * self.shard.numel(), device=self.device)
            try:
                dist.all_gather_into_tensor(full, self.shard)
            finally:
                self.gathered.record(self.gather)
        self.full = full

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        self.unshard()
        current = torch.cuda.current_stream(self.device)
        current.wait_event(self.gathered)
        self.full.record_stream(current)
        n = self.shape.numel()
        weight = self.full[:n].view(self.shape)
        bias = self.full[n : n + self.shape[0]]
        return F.linear(x, weight, bias)

    def reshard(self) -> None:
        torch.cuda.current_stream(self.device).wait_event(self.gathered)
        self.full = None


class ShardedStack:
    def __init__(self, linears: List[nn.Linear], device: torch.device, ahead: int = 1):
        self.ahead = ahead
        self.device = device
        self.gather = torch.cuda.Stream(device=device, priority=-1)
        self.layers = [FlatLayer(l, device, self.gather) for l in linears]

    @torch.no_grad()
    def forward(self, x: torch.Tensor, stop_at: Optional[int] = None) -> torch.Tensor:
        last = len(self.layers) if stop_at is None else min(stop_at, len(self.layers))
        try:
            for i in range(last):
                for layer in self.layers[i : i + 1 + self.ahead]:
                    layer.unshard()
                x = torch.relu(self.layers[i].apply(x))
                self.layers[i].reshard()
        finally:
            for layer in self.layers:
                layer.reshard()
        return x

    @torch.no_grad()
    def perturb(self, scale: float) -> None:
        for layer in self.layers:
            layer.reshard()
            layer.shard.add_(torch.randn_like(layer.shard), alpha=scale)


def explore(stack: ShardedStack, x: torch.Tensor, rounds: int) -> List[float]:
    history = []
    for _ in range(rounds):
        history.append(stack.forward(x).mean().item())
        stack.perturb(1e-3)
    return history
