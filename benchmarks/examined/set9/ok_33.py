from typing import Optional, Tuple

import torch
import torch.distributed as dist
import torch.nn.functional as F


class RingComm:
    def __init__(self, process_group: dist.ProcessGroup):
        self._process_group = process_group
        self._ops = []
        self._reqs = None
        self.rank = dist.get_rank(process_group)
        self.world_size = dist.get_world_size(process_group)
        self.send_rank = dist.get_global_rank(process_group, (self.rank + 1) % self.world_size)
        self.recv_rank = dist.get_global_rank(process_group, (self.rank - 1) % self.world_size)

    def send_recv(self, to_send: torch.Tensor, recv_tensor: Optional[torch.Tensor] = None) -> torch.Tensor:
        res = torch.empty_like(to_send) if recv_tensor is None else recv_tensor
        send_op = dist.P2POp(dist.isend, to_send, self.send_rank, group=self._process_group)
        recv_op = dist.P2POp(dist.irecv, res, self.recv_rank, group=self._process_group)
        self._ops.append(send_op)
        self._ops.append(recv_op)
        return res

    def commit(self):
        if self._reqs is not None:
            raise RuntimeError("commit called twice")
        self._reqs = dist.batch_isend_irecv(self._ops)

    def wait(self):
        if self._reqs is None:
            raise RuntimeError("wait called before commit")
        for req in self._reqs:
            req.wait()
        self._reqs = None
        self._ops = []

    def send_recv_kv(self, k, v, k_buffer=None, v_buffer=None):
        next_k, next_v = self.send_recv(k, k_buffer), self.send_recv(v, v_buffer)
        self.commit()
        return next_k, next_v


def update_out_and_lse(out, lse, block_out, block_lse):
    if out is None:
        return block_out.float(), block_lse
    out = out - torch.sigmoid(block_lse - lse) * (out - block_out)
    lse = lse - F.logsigmoid(lse - block_lse)
    return out, lse


def block_attention(q, k, v, scale, causal) -> Tuple[torch.Tensor, torch.Tensor]:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k).float() * scale
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(mask, float("-inf"))
    lse = scores.logsumexp(dim=-1, keepdim=True)
    return torch.einsum("bhqk,bhkd->bhqd", (scores - lse).exp().to(v.dtype), v), lse


def ring_flash_attn_forward(process_group, q, k, v, softmax_scale, causal=True):
    comm = RingComm(process_group)
    out = lse = None
    k, v = k.contiguous(), v.contiguous()
    kv_buffers = [(torch.empty_like(k), torch.empty_like(v)) for _ in range(2)]
    next_k = next_v = None

    for step in range(comm.world_size):
        if step + 1 != comm.world_size:
            next_k, next_v = comm.send_recv_kv(k, v, *kv_buffers[step % 2])

        if not causal or step <= comm.rank:
            block_out, block_lse = block_attention(q, k, v, softmax_scale, causal and step == 0)
            out, lse = update_out_and_lse(out, lse, block_out, block_lse)

        if step + 1 != comm.world_size:
            comm.wait()
            k, v = next_k, next_v

    return out.to(q.dtype), lse.squeeze(-1)
