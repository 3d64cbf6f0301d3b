"""Ring exchange of key/value shards for context-parallel attention."""
import os

import torch
import torch.distributed as dist


class RingComm:
    def __init__(self, group=None):
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self._ops = []
        self._reqs = None

    def send_recv(self, to_send: torch.Tensor, into: torch.Tensor | None = None) -> torch.Tensor:
        res = torch.empty_like(to_send) if into is None else into
        nxt, prv = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        self._ops.append(dist.P2POp(dist.isend, to_send, nxt, group=self.group))
        self._ops.append(dist.P2POp(dist.irecv, res, prv, group=self.group))
        return res

    def commit(self):
        assert self._reqs is None
        self._reqs = dist.batch_isend_irecv(self._ops)

    def wait(self):
        for req in self._reqs:
            req.wait()
        self._reqs = None
        self._ops = []


def merge(out, lse, block_out, block_lse):
    if out is None:
        return block_out, block_lse
    new = torch.logaddexp(lse, block_lse)
    out = torch.exp(lse - new)[..., None] * out + torch.exp(block_lse - new)[..., None] * block_out
    return out, new


def block_attention(q, k, v):
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    lse = torch.logsumexp(s, -1)
    return torch.softmax(s, -1) @ v, lse


def ring_attention(q, k, v, comm: RingComm):
    out = lse = None
    for step in range(comm.world):
        more = step + 1 < comm.world
        if more:
            next_k = comm.send_recv(k)
            next_v = comm.send_recv(v)
            comm.commit()
        out, lse = merge(out, lse, *block_attention(q, k, v))
        if more:
            comm.wait()
            k, v = next_k, next_v
    return out


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    q, k, v = (torch.randn(16, 1024, 64, device="cuda") for _ in range(3))
    comm = RingComm()
    for _ in range(4):
        o = ring_attention(q, k, v, comm)
        q = q + 0.1 * o
    print(dist.get_rank(), q.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
