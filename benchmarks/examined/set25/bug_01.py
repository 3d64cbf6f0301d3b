import os

import torch
import torch.distributed as dist
import torch.nn as nn


class TopkProxyBuffer:
    """Contiguous int32 staging area for the top-k indices handed to the next stage."""

    def __init__(self):
        self.buffer = None

    def copy(self, topk_indices):
        numel = topk_indices.numel()
        if (
            self.buffer is None
            or self.buffer.numel() < numel
            or self.buffer.device != topk_indices.device
        ):
            self.buffer = torch.empty(numel, dtype=torch.int32, device=topk_indices.device)
        view = self.buffer[:numel].view(topk_indices.shape)
        view.copy_(topk_indices)
        return view


class PPStage(nn.Module):
    def __init__(self, hidden, experts, topk, rank, world):
        super().__init__()
        self.rank = rank
        self.world = world
        self.topk = topk
        self.proj = nn.Linear(hidden, hidden)
        self.indexer = nn.Linear(hidden, experts, bias=False)
        self.proxy = TopkProxyBuffer()
        self.pending = []

    def recv(self, batch, hidden, device):
        h = torch.empty(batch, hidden, device=device)
        t = torch.empty(batch, self.topk, dtype=torch.int32, device=device)
        dist.recv(h, self.rank - 1)
        dist.recv(t, self.rank - 1)
        return h, t

    def send(self, h, topk_indices):
        self.pending.append((dist.isend(h, self.rank + 1), h))
        staged = self.proxy.copy(topk_indices)
        self.pending.append((dist.isend(staged, self.rank + 1), staged))

    def forward(self, h):
        h = torch.relu(self.proj(h))
        scores = self.indexer(h)
        return h, scores.topk(self.topk, dim=-1).indices

    def drain(self):
        for work, _ in self.pending:
            work.wait()
        self.pending.clear()


@torch.inference_mode()
def run_step(stage, micro_batches, batch, hidden, device):
    outputs = []
    for i in range(len(micro_batches)):
        if stage.rank == 0:
            h = micro_batches[i]
        else:
            h, _ = stage.recv(batch, hidden, device)
        h, topk = stage(h)
        if stage.rank < stage.world - 1:
            stage.send(h, topk)
        else:
            outputs.append(h)
    stage.drain()
    return outputs


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    stage = PPStage(2048, 256, 64, rank, world).to(device)
    for _ in range(16):
        mbs = [torch.randn(512, 2048, device=device) for _ in range(8)]
        run_step(stage, mbs, 512, 2048, device)
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
