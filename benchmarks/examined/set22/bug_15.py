"""Forward-only pipeline stage with individual isend/irecv calls overlapped with compute."""
import torch
import torch.distributed as dist
from torch import nn


class P2P:
    def __init__(self, prev_rank, next_rank):
        self.prev_rank = prev_rank
        self.next_rank = next_rank
        self.send_handles = []

    def recv_forward(self, buffer):
        return dist.irecv(buffer, src=self.prev_rank)

    def send_forward(self, buffer):
        self.send_handles.append(dist.isend(buffer, dst=self.next_rank))

    def drain(self):
        for handle in self.send_handles:
            handle.wait()
        self.send_handles.clear()


class PipelineStage:
    def __init__(self, module, shape, rank, world, device, dtype=torch.bfloat16):
        self.module = module.to(device, dtype).eval()
        self.rank = rank
        self.world = world
        self.device = device
        self.p2p = P2P(rank - 1, rank + 1)
        self.recv_buffers = [torch.empty(shape, dtype=dtype, device=device) for _ in range(2)]
        self.send_buffer = torch.empty(shape, dtype=dtype, device=device)

    @property
    def first(self):
        return self.rank == 0

    @property
    def last(self):
        return self.rank == self.world - 1

    def _post_recv(self, k, total):
        if self.first or k >= total:
            return None
        return self.p2p.recv_forward(self.recv_buffers[k % 2])

    @torch.no_grad()
    def forward_microbatches(self, microbatches, total):
        outputs = []
        handle = self._post_recv(0, total)
        for k in range(total):
            if self.first:
                x = microbatches[k].to(self.device, torch.bfloat16)
            else:
                handle.wait()
                x = self.recv_buffers[k % 2]
            handle = self._post_recv(k + 1, total)
            y = self.module(x)
            if self.last:
                outputs.append(y)
            else:
                self.send_buffer.copy_(y)
                self.p2p.send_forward(self.send_buffer)
        self.p2p.drain()
        return outputs


def build_block(dim, depth):
    return nn.Sequential(*[
        nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        for _ in range(depth)
    ])


def main(rank, world, data, microbatch, seq, dim):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    device = torch.device("cuda", rank)
    stage = PipelineStage(build_block(dim, 6), (microbatch, seq, dim), rank, world, device)
    scores = []
    for batch in data:
        chunks = batch.split(microbatch)
        outs = stage.forward_microbatches(chunks, len(chunks))
        if stage.last:
            scores.append(torch.cat(outs).float().mean((1, 2)).cpu())
    dist.destroy_process_group()
    return scores
