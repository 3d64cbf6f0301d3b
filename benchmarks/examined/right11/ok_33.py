from __future__ import annotations

import os
from typing import Optional

import torch
import torch.distributed as dist


class RingComm:
    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group
        self._ops: list[dist.P2POp] = []
        self._reqs: Optional[list] = None
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        self.world_size = world
        self.send_rank = (rank + 1) % world
        self.recv_rank = (rank - 1) % world

    def send_recv(self, to_send: torch.Tensor, out: Optional[torch.Tensor] = None) -> torch.Tensor:
        res = torch.empty_like(to_send) if out is None else out
        self._ops.append(dist.P2POp(dist.isend, to_send, self.send_rank, group=self._group))
        self._ops.append(dist.P2POp(dist.irecv, res, self.recv_rank, group=self._group))
        return res

    def commit(self) -> None:
        if self._reqs is not None:
            raise RuntimeError("commit called twice")
        self._reqs = dist.batch_isend_irecv(self._ops)

    def wait(self) -> None:
        if self._reqs is None:
            raise RuntimeError("wait called before commit")
        for req in self._reqs:
            req.wait()
        self._reqs = None
        self._ops = []


def merge(out, lse, block_out, block_lse):
    if out is None:
        return block_out, block_lse
    new_lse = torch.logaddexp(lse, block_lse)
    out = out * torch.exp(lse - new_lse).unsqueeze(-1) + block_out * torch.exp(block_lse - new_lse).unsqueeze(-1)
    return out, new_lse


def block_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.size(-1) ** -0.5
    lse = torch.logsumexp(scores, dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", torch.exp(scores - lse.unsqueeze(-1)), v), lse


@torch.no_grad()
def ring_attention(group: dist.ProcessGroup, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    comm = RingComm(group)
    out = lse = None
    next_k = next_v = None
    for step in range(comm.world_size):
        last = step + 1 == comm.world_size
        if not last:
            next_k = comm.send_recv(k)
            next_v = comm.send_recv(v)
            comm.commit()
        out, lse = merge(out, lse, *block_attention(q, k, v))
        if not last:
            comm.wait()
            k, v = next_k, next_v
    return out


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    q, k, v = (torch.randn(2, 8, 256, 64, device="cuda") for _ in range(3))
    for _ in range(5):
        q = ring_attention(dist.group.WORLD, q, k, v)
    print(q.abs().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
