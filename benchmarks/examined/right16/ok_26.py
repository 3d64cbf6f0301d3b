"""Ring attention forward pass: keys and values travel while scores are computed."""
from __future__ import annotations

import torch
import torch.distributed as dist


class Ring:
    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.after = (self.rank + 1) % self.world
        self.before = (self.rank - 1) % self.world

    def shift(self, outgoing: torch.Tensor, incoming: torch.Tensor) -> list[dist.Work]:
        ops = [
            dist.P2POp(dist.isend, outgoing, self.after),
            dist.P2POp(dist.irecv, incoming, self.before),
        ]
        if self.rank % 2:
            ops.reverse()
        return dist.batch_isend_irecv(ops)


def merge(out, lse, block_out, block_lse):
    if out is None:
        return block_out, block_lse
    top = torch.logaddexp(lse, block_lse)
    out = out * (lse - top).exp().unsqueeze(-1) + block_out * (block_lse - top).exp().unsqueeze(-1)
    return out, top


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.softmax(dim=-1) @ v, scores.logsumexp(dim=-1)


@torch.no_grad()
def ring_attention(ring: Ring, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    current = torch.stack([k, v])
    spare = torch.empty_like(current)
    out = lse = None
    for hop in range(ring.world):
        pending: list[dist.Work] = []
        if hop + 1 < ring.world:
            pending = ring.shift(current, spare)
        try:
            block_out, block_lse = attend(q, current[0], current[1])
            out, lse = merge(out, lse, block_out, block_lse)
        finally:
            for work in pending:
                work.wait()
        current, spare = spare, current
    return out


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    world = dist.get_world_size()
    keys = [torch.empty_like(k) for _ in range(world)]
    values = [torch.empty_like(v) for _ in range(world)]
    dist.all_gather(keys, k)
    dist.all_gather(values, v)
    return attend(q, torch.cat(keys, dim=-2), torch.cat(values, dim=-2))[0]


def main() -> None:
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.manual_seed(dist.get_rank())
    ring = Ring()
    for _ in range(5):
        q, k, v = (torch.randn(2, 8, 128, 64, device=device) for _ in range(3))
        got = ring_attention(ring, q, k, v)
        want = reference(q, k, v)
        print(ring.rank, (got - want).abs().max().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
