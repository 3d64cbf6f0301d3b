"""Sequence-parallel linear layer: input all-gather overlapped with the dgrad GEMM."""
import os

import torch
import torch.distributed as dist
from torch import nn


class CommOverlap:
    """Stream and events for the gathered copy of the layer input."""

    def __init__(self, group):
        self.group = group
        self.stream = torch.cuda.Stream()
        self.start = torch.cuda.Event()
        self.done = torch.cuda.Event()

    def all_gather(self, shard):
        """Start the gather; the result may be read after wait()."""
        world = dist.get_world_size(self.group)
        full = torch.empty((world * shard.shape[0],) + shard.shape[1:],
                           dtype=shard.dtype, device=shard.device)
        self.start.record()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.start)
            dist.all_gather_into_tensor(full, shard, group=self.group)
            self.done.record()
        return full

    def wait(self):
        torch.cuda.current_stream().wait_event(self.done)


class _SequenceParallelLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, weight, overlap):
        full = overlap.all_gather(shard)
        overlap.wait()
        ctx.save_for_backward(shard, weight)
        ctx.overlap = overlap
        return full @ weight.t()

    @staticmethod
    def backward(ctx, grad_out):
        shard, weight = ctx.saved_tensors
        overlap = ctx.overlap
        grad_out = grad_out.contiguous()
        full = overlap.all_gather(shard)
        dgrad_full = grad_out @ weight
        dgrad = torch.empty_like(shard)
        dist.reduce_scatter_tensor(dgrad, dgrad_full, group=overlap.group)
        overlap.wait()
        wgrad = grad_out.t() @ full
        return dgrad, wgrad, None


class SequenceParallelLinear(nn.Module):
    def __init__(self, width, overlap):
        super().__init__()
        world = dist.get_world_size(overlap.group)
        self.weight = nn.Parameter(torch.randn(width // world, width) * width ** -0.5)
        self.overlap = overlap

    def forward(self, shard):
        return _SequenceParallelLinear.apply(shard, self.weight, self.overlap)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(dist.get_rank())
    overlap = CommOverlap(dist.group.WORLD)
    layer = SequenceParallelLinear(4096, overlap).cuda()
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
    for _ in range(20):
        shard = torch.randn(512, 4096, device="cuda", requires_grad=True)
        loss = layer(shard).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(dist.get_rank(), loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
