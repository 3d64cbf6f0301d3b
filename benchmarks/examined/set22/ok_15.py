"""Ring attention with a double ring: key/value blocks travel while the resident block is attended."""
import torch
import torch.distributed as dist
import torch.nn.functional as F


class RingComm:
    def __init__(self, group):
        self.group = group
        self.rank = dist.get_rank(group)
        self.world_size = dist.get_world_size(group)
        nxt = (self.rank + 1) % self.world_size
        prv = (self.rank - 1) % self.world_size
        self.send_rank = dist.get_global_rank(group, nxt)
        self.recv_rank = dist.get_global_rank(group, prv)
        self._ops = []
        self._reqs = None

    def send_recv(self, tensor, out=None):
        res = torch.empty_like(tensor) if out is None else out
        send = dist.P2POp(dist.isend, tensor, self.send_rank, group=self.group)
        recv = dist.P2POp(dist.irecv, res, self.recv_rank, group=self.group)
        self._ops += [send, recv] if self.rank % 2 == 0 else [recv, send]
        return res

    def commit(self):
        self._reqs = dist.batch_isend_irecv(self._ops)

    def wait(self):
        for req in self._reqs:
            req.wait()
        self._reqs = None
        self._ops = []


def merge(out, lse, block_out, block_lse):
    if out is None:
        return block_out.float(), block_lse
    new_lse = torch.logaddexp(lse, block_lse)
    out = out * (lse - new_lse).exp()[..., None] + block_out.float() * (block_lse - new_lse).exp()[..., None]
    return out, new_lse


def block_attention(q, k, v, scale):
    scores = torch.matmul(q, k.transpose(-1, -2)).float() * scale
    lse = torch.logsumexp(scores, dim=-1)
    probs = (scores - lse[..., None]).exp().to(v.dtype)
    return torch.matmul(probs, v), lse


@torch.no_grad()
def ring_attention(q, k, v, group):
    comm = RingComm(group)
    scale = q.shape[-1] ** -0.5
    spare = (torch.empty_like(k), torch.empty_like(v))
    k, v = k.clone(), v.clone()
    out = lse = None
    for step in range(comm.world_size):
        if step + 1 < comm.world_size:
            next_k = comm.send_recv(k, spare[0])
            next_v = comm.send_recv(v, spare[1])
            comm.commit()
        block_out, block_lse = block_attention(q, k, v, scale)
        out, lse = merge(out, lse, block_out, block_lse)
        if step + 1 < comm.world_size:
            comm.wait()
            spare = (k, v)
            k, v = next_k, next_v
    return out.to(q.dtype)


def check(rank, group, shape):
    torch.cuda.set_device(rank)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    ring = ring_attention(q, k, v, group)
    ks = [torch.empty_like(k) for _ in range(dist.get_world_size(group))]
    vs = [torch.empty_like(v) for _ in range(dist.get_world_size(group))]
    dist.all_gather(ks, k, group=group)
    dist.all_gather(vs, v, group=group)
    full = F.scaled_dot_product_attention(q, torch.cat(ks, 2), torch.cat(vs, 2))
    return (ring - full).abs().max().item()
