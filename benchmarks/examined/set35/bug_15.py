"""Sequence-parallel attention with head exchange on a communication stream."""
from typing import Optional

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class HeadExchange:
    """[b, s/P, h, d] <-> [b, s, h/P, d] through all_to_all on one side stream."""

    def __init__(self, group: dist.ProcessGroup):
        self.group = group
        self.world = dist.get_world_size(group)
        self.stream: Optional[torch.cuda.Stream] = None
        self.done = torch.cuda.Event()

    def _comm_stream(self) -> torch.cuda.Stream:
        if self.stream is None:
            self.stream = torch.cuda.Stream(priority=-1)
        return self.stream

    def _exchange(self, packed: torch.Tensor) -> torch.Tensor:
        comm = self._comm_stream()
        out = torch.empty_like(packed)
        comm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(comm):
            dist.all_to_all_single(out, packed, group=self.group)
            self.done.record()
        packed.record_stream(comm)
        return out

    def scatter_heads(self, x: torch.Tensor) -> torch.Tensor:
        b, s, h, d = x.shape
        packed = x.view(b, s, self.world, h // self.world, d).permute(2, 1, 0, 3, 4).contiguous()
        out = self._exchange(packed)
        return out.view(self.world * s, b, h // self.world, d).transpose(0, 1)

    def gather_heads(self, x: torch.Tensor) -> torch.Tensor:
        b, s, h, d = x.shape
        packed = x.view(b, self.world, s // self.world, h, d).permute(1, 3, 2, 0, 4).contiguous()
        out = self._exchange(packed)
        return out.view(self.world * h, s // self.world, b, d).permute(2, 1, 0, 3)

    def join(self) -> None:
        torch.cuda.current_stream().wait_event(self.done)


class SequenceParallelAttention(nn.Module):
    def __init__(self, dim: int, heads: int, exchange: HeadExchange):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)
        self.norm_q = nn.LayerNorm(dim // heads)
        self.norm_k = nn.LayerNorm(dim // heads)
        self.exchange = exchange

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ex = self.exchange
        q = ex.scatter_heads(self._split(self.to_q(x)))
        k = ex.scatter_heads(self._split(self.to_k(x)))
        ex.join()
        v = ex.scatter_heads(self._split(self.to_v(x)))
        q, k = self.norm_q(q), self.norm_k(k)
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        out = ex.gather_heads(out.transpose(1, 2).contiguous())
        ex.join()
        return self.to_out(out.reshape(x.shape))


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    exchange = HeadExchange(dist.group.WORLD)
    layers = nn.ModuleList(
        SequenceParallelAttention(2048, 16, exchange) for _ in range(8)).cuda().bfloat16()
    x = torch.randn(1, 4096, 2048, device="cuda", dtype=torch.bfloat16)
    for layer in layers:
        x = x + layer(x)
    print(dist.get_rank(), x.float().norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
