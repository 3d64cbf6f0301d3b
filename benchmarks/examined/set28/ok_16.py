import torch
import torch.distributed as dist


class RingComm:
    """Passes tensors to the next rank and takes those of the previous one."""

    def __init__(self, group):
        self.group = group
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        ranks = dist.get_process_group_ranks(group)
        self.send_to = ranks[(self.rank + 1) % self.world]
        self.recv_from = ranks[(self.rank - 1) % self.world]
        self.ops, self.requests = [], None

    def exchange(self, tensor, out):
        send = dist.P2POp(dist.isend, tensor, self.send_to, group=self.group)
        recv = dist.P2POp(dist.irecv, out, self.recv_from, group=self.group)
        self.ops += [send, recv]

    def commit(self):
        self.requests = dist.batch_isend_irecv(self.ops)

    def wait(self):
        for req in self.requests:
            req.wait()
        self.requests, self.ops = None, []


def block_attention(q, k, v, scale):
    scores = torch.einsum("bhqd,bhkd->bhqk", q.float(), k.float()) * scale
    lse = scores.logsumexp(dim=-1, keepdim=True)
    return torch.einsum("bhqk,bhkd->bhqd", (scores - lse).exp(), v.float()), lse


def merge(out, lse, block_out, block_lse):
    new_lse = torch.logaddexp(lse, block_lse)
    out = out * (lse - new_lse).exp() + block_out * (block_lse - new_lse).exp()
    return out, new_lse


class RingAttention:
    def __init__(self, group, overlap=True):
        self.group = group
        self.overlap = overlap

    def __call__(self, q, k, v):
        comm = RingComm(self.group)
        scale = q.shape[-1] ** -0.5
        buffers = [(k.contiguous(), v.contiguous()), (torch.empty_like(k), torch.empty_like(v))]
        spare = (torch.empty_like(k), torch.empty_like(v))
        out = lse = None
        current, incoming = buffers
        for step in range(comm.world):
            last = step + 1 == comm.world
            if not last:
                comm.exchange(current[0], incoming[0])
                comm.exchange(current[1], incoming[1])
                comm.commit()
                if not self.overlap:
                    comm.wait()
            block_out, block_lse = block_attention(q, current[0], current[1], scale)
            if out is None:
                out, lse = block_out, block_lse
            else:
                out, lse = merge(out, lse, block_out, block_lse)
            if not last:
                if self.overlap:
                    comm.wait()
                if step == 0:
                    current, incoming = incoming, spare
                else:
                    current, incoming = incoming, current
        return out.to(q.dtype)


@torch.inference_mode()
def denoise(blocks, latents, group, steps):
    attention = RingAttention(group)
    shard = latents.chunk(dist.get_world_size(group), dim=1)[dist.get_rank(group)].cuda()
    for _ in range(steps):
        for block in blocks:
            q, k, v = block.qkv(shard)
            shard = block.finish(shard, attention(q, k, v))
    gathered = [torch.empty_like(shard) for _ in range(dist.get_world_size(group))]
    dist.all_gather(gathered, shard, group=group)
    return torch.cat(gathered, dim=1).cpu()
