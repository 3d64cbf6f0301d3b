"""Ring attention over NCCL point-to-point (CuPy communicator, torch tensors)."""
from dataclasses import dataclass

import torch
import torch.distributed as dist
from cupy.cuda import nccl

_NCCL_TYPE = {
    torch.float16: nccl.NCCL_FLOAT16,
    torch.float32: nccl.NCCL_FLOAT32,
}


@dataclass
class P2POp:
    kind: str
    tensor: torch.Tensor
    peer: int


class Work:
    def __init__(self, event):
        self.event = event

    def wait(self):
        torch.cuda.current_stream().wait_event(self.event)


class NcclGroup:
    """A communicator with its own stream; operations can be issued as one NCCL group."""

    def __init__(self, rank, world_size):
        self.rank = rank
        self.world_size = world_size
        uid = [nccl.get_unique_id() if rank == 0 else None]
        dist.broadcast_object_list(uid, src=0)
        self.comm = nccl.NcclCommunicator(world_size, uid[0], rank)
        self.stream = torch.cuda.Stream()

    def _issue(self, op):
        call = self.comm.send if op.kind == "send" else self.comm.recv
        call(op.tensor.data_ptr(), op.tensor.numel(), _NCCL_TYPE[op.tensor.dtype],
             op.peer, self.stream.cuda_stream)
        event = torch.cuda.Event()
        event.record(self.stream)
        return Work(event)

    def batch_isend_irecv(self, ops):
        self.stream.wait_stream(torch.cuda.current_stream())
        nccl.groupStart()
        works = [self._issue(op) for op in ops]
        nccl.groupEnd()
        return works


def _block_attention(q, k, v, scale):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k).float() * scale
    lse = torch.logsumexp(scores, dim=-1, keepdim=True)
    return torch.exp(scores - lse).to(q.dtype) @ v, lse


def _merge(out, lse, block_out, block_lse):
    if out is None:
        return block_out.float(), block_lse
    new_lse = torch.logaddexp(lse, block_lse)
    out = out * torch.exp(lse - new_lse) + block_out.float() * torch.exp(block_lse - new_lse)
    return out, new_lse


class RingAttention:
    def __init__(self, group, shape, dtype, device):
        self.group = group
        self.buffers = [
            tuple(torch.empty(shape, dtype=dtype, device=device) for _ in range(2)) for _ in range(2)
        ]

    @torch.no_grad()
    def __call__(self, q, k, v):
        rank, world = self.group.rank, self.group.world_size
        nxt, prev = (rank + 1) % world, (rank - 1) % world
        out = lse = None
        for step in range(world):
            works = []
            if step + 1 < world:
                next_k, next_v = self.buffers[step % 2]
                works = self.group.batch_isend_irecv([
                    P2POp("send", k, nxt), P2POp("send", v, nxt),
                    P2POp("recv", next_k, prev), P2POp("recv", next_v, prev),
                ])
            block_out, block_lse = _block_attention(q, k, v, q.shape[-1] ** -0.5)
            out, lse = _merge(out, lse, block_out, block_lse)
            for work in works:
                work.wait()
            if works:
                k, v = next_k, next_v
        return out.to(q.dtype)


def main(batch=1, heads=16, seq=8192, dim=128, iters=20):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    shape = (batch, heads, seq, dim)
    ring = RingAttention(NcclGroup(rank, world), shape, torch.float16, device)
    for _ in range(iters):
        q, k, v = (torch.randn(shape, dtype=torch.float16, device=device) for _ in range(3))
        out = ring(q, k, v)
        torch.cuda.synchronize(device)
    return out.float().mean().item()
