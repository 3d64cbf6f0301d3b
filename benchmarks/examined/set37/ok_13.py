"""Sequence-parallel attention: heads and sequence are swapped between ranks on a communication stream."""
import os
from typing import Tuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class HeadExchange:
    """Driven from one compute stream; received chunks stay in the communication stream's pool."""

    def __init__(self, group: dist.ProcessGroup):
        self.group = group
        self.world = dist.get_world_size(group)
        self.comm_stream = torch.cuda.Stream()

    def swap(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.cuda.Event]:
        """x: contiguous, first dimension divisible by the world size."""
        compute = torch.cuda.current_stream()
        self.comm_stream.wait_event(compute.record_event())
        with torch.cuda.stream(self.comm_stream):
            received = torch.empty_like(x)
            dist.all_to_all_single(received, x, group=self.group)
            done = self.comm_stream.record_event()
        x.record_stream(self.comm_stream)
        return received, done


class SequenceParallelBlock(nn.Module):
    def __init__(self, hidden: int, heads: int, exchange: HeadExchange):
        super().__init__()
        self.heads, self.dim = heads, hidden // heads
        self.exchange = exchange
        self.norm = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.proj = nn.Linear(hidden, hidden, bias=False)
        self.gate = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        compute = torch.cuda.current_stream()
        world, length = self.exchange.world, x.shape[0]
        local = self.heads // world
        normed = self.norm(x)
        qkv = self.qkv(normed).view(length, 3, world, local, self.dim).permute(2, 0, 1, 3, 4).contiguous()
        received, arrived = self.exchange.swap(qkv)
        gate = torch.sigmoid(self.gate(normed))
        compute.wait_event(arrived)
        q, k, v = received.reshape(world * length, 3, local, self.dim).permute(1, 2, 0, 3)
        attended = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        outgoing = attended.permute(1, 0, 2).reshape(world, length, local, self.dim).contiguous()
        del received, q, k, v
        returned, arrived = self.exchange.swap(outgoing)
        compute.wait_event(arrived)
        merged = returned.permute(1, 0, 2, 3).reshape(length, self.heads * self.dim)
        return x + gate * self.proj(merged)


@torch.no_grad()
def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    exchange = HeadExchange(dist.group.WORLD)
    torch.manual_seed(0)
    layers = nn.Sequential(*[SequenceParallelBlock(2048, 16, exchange) for _ in range(12)]).cuda().bfloat16()
    x = torch.randn(4096, 2048, device="cuda", dtype=torch.bfloat16)
    for _ in range(4):
        y = layers(x)
    print(dist.get_rank(), y.float().norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
