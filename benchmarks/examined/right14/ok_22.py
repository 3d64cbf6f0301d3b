"""Ring attention over a process group with two rotating receive buffers."""
from __future__ import annotations

import math

import torch
import torch.distributed as dist


class RingAttention:
    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        peers = dist.get_process_group_ranks(group or dist.group.WORLD)
        self.next_peer = peers[(self.rank + 1) % self.world]
        self.prev_peer = peers[(self.rank - 1) % self.world]
        self.buffers: list[torch.Tensor] = []

    def _reserve(self, kv: torch.Tensor) -> None:
        if self.buffers and self.buffers[0].shape == kv.shape and self.buffers[0].dtype == kv.dtype:
            return
        self.buffers = [torch.empty_like(kv), torch.empty_like(kv)]

    def _exchange(self, src: torch.Tensor, dst: torch.Tensor) -> list[dist.Work]:
        ops = [
            dist.P2POp(dist.isend, src, self.next_peer, self.group),
            dist.P2POp(dist.irecv, dst, self.prev_peer, self.group),
        ]
        return dist.batch_isend_irecv(ops)

    @staticmethod
    def _block(q: torch.Tensor, kv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        k, v = kv.unbind(0)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        lse = scores.logsumexp(-1, keepdim=True)
        return torch.exp(scores - lse) @ v, lse

    @torch.no_grad()
    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        current = torch.stack([k, v])
        self._reserve(current)
        out, lse = None, None
        for step in range(self.world):
            works: list[dist.Work] = []
            if step + 1 < self.world:
                incoming = self.buffers[step % 2]
                works = self._exchange(current, incoming)
            part, part_lse = self._block(q, current)
            if out is None:
                out, lse = part, part_lse
            else:
                merged = torch.logaddexp(lse, part_lse)
                out = out * torch.exp(lse - merged) + part * torch.exp(part_lse - merged)
                lse = merged
            for work in works:
                work.wait()
            if works:
                current = incoming
        return out


def main() -> None:
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    attention = RingAttention()
    q, k, v = (torch.randn(2, 8, 512, 64, device=device) for _ in range(3))
    for _ in range(4):
        q = attention(q, k, v)
    print(dist.get_rank(), q.abs().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
