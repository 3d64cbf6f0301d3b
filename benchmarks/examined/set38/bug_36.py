"""Ring attention over a process group: keys and values travel while scores are computed."""
import math
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class RingComm:
    """Passes one packed tensor to the next rank and takes one from the previous rank."""

    def __init__(self, group=None):
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.dst = (self.rank + 1) % self.world
        self.src = (self.rank - 1) % self.world
        self.stream = torch.cuda.Stream()
        self.requests = []

    def send_recv(self, tensor, out):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            ops = [dist.P2POp(dist.isend, tensor, self.dst, group=self.group),
                   dist.P2POp(dist.irecv, out, self.src, group=self.group)]
            self.requests = dist.batch_isend_irecv(ops)
        return out

    def wait(self):
        with torch.cuda.stream(self.stream):
            for req in self.requests:
                req.wait()
        self.requests = []


def merge(acc, lse, out, out_lse):
    if acc is None:
        return out, out_lse
    top = torch.maximum(lse, out_lse)
    wa, wb = torch.exp(lse - top), torch.exp(out_lse - top)
    total = wa + wb
    acc = (acc * wa[..., None] + out * wb[..., None]) / total[..., None]
    return acc, top + torch.log(total)


def block_attention(q, kv):
    k, v = kv[0], kv[1]
    s = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    lse = torch.logsumexp(s, dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", torch.exp(s - lse[..., None]), v), lse


class RingAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.comm = RingComm()
        self.slots = None

    def _split(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.heads, -1).transpose(1, 2)

    @torch.no_grad()
    def forward(self, x):
        q, k, v = (self._split(t) for t in self.qkv(x).chunk(3, dim=-1))
        kv = torch.stack([k, v])
        if self.slots is None:
            self.slots = [torch.empty_like(kv) for _ in range(self.comm.world)]
        self.slots[0].copy_(kv)
        acc, lse = None, None
        for step in range(self.comm.world):
            cur = self.slots[step]
            if step + 1 < self.comm.world:
                self.comm.send_recv(cur, self.slots[step + 1])
            out, out_lse = block_attention(q, cur)
            acc, lse = merge(acc, lse, out, out_lse)
            if step + 1 < self.comm.world:
                self.comm.wait()
        return acc.transpose(1, 2).flatten(2)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    layer = RingAttention(1024, 16).cuda()
    torch.manual_seed(dist.get_rank())
    x = torch.randn(2, 2048, 1024, device="cuda")
    y = layer(x)
    total = y.float().square().mean()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(float(total) / dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
