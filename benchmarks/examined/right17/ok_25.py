"""Ring attention over sequence shards with two rotating receive buffers."""
from typing import List, Optional

import torch
import torch.distributed as dist


class RingAttention:
    def __init__(self, group: Optional[dist.ProcessGroup] = None):
        self.group = group
        self.world = dist.get_world_size(group)
        rank = dist.get_rank(group)
        self.next = (rank + 1) % self.world
        self.prev = (rank - 1) % self.world
        if group is not None:
            self.next = dist.get_global_rank(group, self.next)
            self.prev = dist.get_global_rank(group, self.prev)

    def _exchange(self, send: torch.Tensor, recv: torch.Tensor) -> List[dist.Work]:
        return dist.batch_isend_irecv([
            dist.P2POp(dist.isend, send, self.next, self.group),
            dist.P2POp(dist.irecv, recv, self.prev, self.group),
        ])

    @staticmethod
    def _merge(acc, top, norm, scores, v):
        new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        scale = torch.exp(top - new_top)
        p = torch.exp(scores - new_top)
        return acc * scale + p @ v, new_top, norm * scale + p.sum(dim=-1, keepdim=True)

    @torch.no_grad()
    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        kv = torch.stack([k, v])
        buffers = [torch.empty_like(kv) for _ in range(min(2, self.world - 1))]
        acc = torch.zeros_like(q)
        top = torch.full((*q.shape[:-1], 1), float("-inf"), device=q.device, dtype=q.dtype)
        norm = torch.zeros_like(top)
        scale = q.shape[-1] ** -0.5
        for hop in range(self.world):
            works: List[dist.Work] = []
            incoming = None
            if hop + 1 < self.world:
                incoming = buffers[hop % 2]
                works = self._exchange(kv, incoming)
            try:
                scores = (q @ kv[0].transpose(-1, -2)) * scale
                acc, top, norm = self._merge(acc, top, norm, scores, kv[1])
            finally:
                for work in works:
                    work.wait()
            if incoming is not None:
                kv = incoming
        return acc / norm


def attention_layer(ring: RingAttention, x: torch.Tensor, qkv: torch.Tensor, heads: int) -> torch.Tensor:
    batch, length, dim = x.shape
    q, k, v = (x @ qkv).view(batch, length, 3, heads, dim // heads).permute(2, 0, 3, 1, 4)
    out = ring(q.contiguous(), k, v)
    return out.transpose(1, 2).reshape(batch, length, dim)
