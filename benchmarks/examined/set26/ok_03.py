import torch
import torch.distributed as dist
import torch.nn.functional as F

_COMM_STREAMS = {}


def comm_stream_for(device):
    if device not in _COMM_STREAMS:
        _COMM_STREAMS[device] = torch.cuda.Stream(device=device)
    return _COMM_STREAMS[device]


def partial_attention(q, k, v, scale):
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    lse = torch.logsumexp(scores, dim=-1, keepdim=True)
    return torch.matmul(torch.exp(scores - lse), v), lse


def merge(out, lse, new_out, new_lse):
    total = torch.logaddexp(lse, new_lse)
    return out * torch.exp(lse - total) + new_out * torch.exp(new_lse - total), total


@torch.no_grad()
def ring_sdpa(q, k, v, group):
    """Scaled dot product attention over a sequence sharded along ``group``."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    send_to = dist.get_global_rank(group, (rank + 1) % size)
    recv_from = dist.get_global_rank(group, (rank - 1) % size)
    comm_stream = comm_stream_for(q.device)
    main = torch.cuda.current_stream()
    current_k, current_v = k.contiguous(), v.contiguous()
    out = lse = None
    for step in range(size):
        if step < size - 1:
            comm_stream.wait_stream(main)
            with torch.cuda.stream(comm_stream):
                next_k = torch.empty_like(current_k)
                next_v = torch.empty_like(current_v)
                ops = [
                    dist.P2POp(dist.isend, current_k, send_to, group),
                    dist.P2POp(dist.isend, current_v, send_to, group),
                    dist.P2POp(dist.irecv, next_k, recv_from, group),
                    dist.P2POp(dist.irecv, next_v, recv_from, group),
                ]
                for req in dist.batch_isend_irecv(ops):
                    req.wait()
            current_k.record_stream(comm_stream)
            current_v.record_stream(comm_stream)
        part, part_lse = partial_attention(q, current_k, current_v, q.shape[-1] ** -0.5)
        if out is None:
            out, lse = part, part_lse
        else:
            out, lse = merge(out, lse, part, part_lse)
        if step < size - 1:
            main.wait_stream(comm_stream)
            next_k.record_stream(main)
            next_v.record_stream(main)
            current_k, current_v = next_k, next_v
    return out


class RingBlock(torch.nn.Module):
    def __init__(self, dim, heads, group):
        super().__init__()
        self.qkv = torch.nn.Linear(dim, 3 * dim)
        self.proj = torch.nn.Linear(dim, dim)
        self.heads = heads
        self.group = group

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        out = ring_sdpa(q, k, v, self.group)
        return x + F.gelu(self.proj(out.transpose(1, 2).reshape(b, n, d)))
