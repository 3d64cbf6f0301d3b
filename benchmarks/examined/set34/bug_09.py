"""Ring attention over sequence shards (forward only)."""
import os

import torch
import torch.distributed as dist


class RingComm:
    def __init__(self, group=None):
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.send_to = (self.rank + 1) % self.world
        self.recv_from = (self.rank - 1) % self.world
        self._ops = []
        self._reqs = []

    def send_recv(self, tensor):
        incoming = torch.empty_like(tensor)
        self._ops.append(dist.P2POp(dist.isend, tensor, self.send_to, group=self.group))
        self._ops.append(dist.P2POp(dist.irecv, incoming, self.recv_from, group=self.group))
        return incoming

    def commit(self):
        self._reqs.extend(dist.batch_isend_irecv(self._ops))
        self._ops = []

    def wait(self):
        for req in self._reqs:
            req.wait()
        self._reqs = []


def block_attention(q, k, v, scale):
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    lse = torch.logsumexp(scores, dim=-1, keepdim=True)
    return torch.matmul(torch.exp(scores - lse), v), lse


def merge(out, lse, block_out, block_lse):
    if out is None:
        return block_out, block_lse
    new_lse = torch.logaddexp(lse, block_lse)
    out = out * torch.exp(lse - new_lse) + block_out * torch.exp(block_lse - new_lse)
    return out, new_lse


@torch.no_grad()
def ring_attention(q, k, v, group=None):
    comm = RingComm(group)
    scale = q.shape[-1] ** -0.5
    out = lse = None
    held = []
    for step in range(comm.world):
        last = step + 1 == comm.world
        if not last:
            next_k = comm.send_recv(k)
            next_v = comm.send_recv(v)
            comm.commit()
        block_out, block_lse = block_attention(q, k, v, scale)
        out, lse = merge(out, lse, block_out, block_lse)
        held.append((k, v))
        if not last:
            k, v = next_k, next_v
    comm.wait()
    held.clear()
    return out, lse


def main():
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl")
    shape = (2, 16, 2048, 128)
    for _ in range(10):
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        out, _ = ring_attention(q, k, v)
    if dist.get_rank() == 0:
        print(out.float().abs().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
