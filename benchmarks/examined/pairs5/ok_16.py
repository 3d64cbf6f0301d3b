"""Ring exchange of key/value blocks: requests are waited for before the received block is used."""
import os
import torch
import torch.distributed as dist


class RingComm:
    def __init__(self, group=None):
        self.group = group
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        self.reqs = []
        self.ops = []

    def exchange(self, t):
        out = torch.empty_like(t)
        self.ops.append(dist.P2POp(dist.isend, t, (self.rank + 1) % self.world, group=self.group))
        self.ops.append(dist.P2POp(dist.irecv, out, (self.rank - 1) % self.world, group=self.group))
        return out

    def commit(self):
        self.reqs = dist.batch_isend_irecv(self.ops)
        self.ops = []

    def wait(self):
        for r in self.reqs:
            r.wait()
        self.reqs = []


def ring_attention(q, k, v):
    comm = RingComm()
    out, lse = None, None
    for step in range(comm.world):
        last = step + 1 == comm.world
        if not last:
            k_next, v_next = comm.exchange(k), comm.exchange(v)
            comm.commit()
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        block_lse = scores.logsumexp(-1, keepdim=True)
        block = (scores - block_lse).exp() @ v
        if out is None:
            out, lse = block, block_lse
        else:
            new = torch.logaddexp(lse, block_lse)
            out = out * (lse - new).exp() + block * (block_lse - new).exp()
            lse = new
        if not last:
            comm.wait()
            k, v = k_next, v_next
    return out


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    for _ in range(10):
        q, k, v = (torch.randn(8, 1024, 64, device="cuda") for _ in range(3))
        out = ring_attention(q, k, v)
    print(dist.get_rank(), out.float().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
