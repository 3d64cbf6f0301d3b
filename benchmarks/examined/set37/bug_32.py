"""A block with sharded parameters: gathered before forward, gradients scattered after backward."""
import math
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class StreamSet:
    def __init__(self, device):
        self.unshard = torch.cuda.Stream(device=device, priority=-1)
        self.post_backward = torch.cuda.Stream(device=device)


class ShardedBlock(nn.Module):
    """Two linear layers over one flat parameter."""

    def __init__(self, hidden, group, streams, device):
        super().__init__()
        self.group = group
        self.streams = streams
        self.world = dist.get_world_size(group)
        self.shapes = [(4 * hidden, hidden), (4 * hidden,), (hidden, 4 * hidden), (hidden,)]
        self.sizes = [math.prod(s) for s in self.shapes]
        padded = -(-sum(self.sizes) // self.world) * self.world
        self.flat = nn.Parameter(torch.zeros(padded, device=device))
        self.shard = torch.randn(padded // self.world, device=device) * 0.02
        self.shard_grad = torch.zeros_like(self.shard)
        self.flat.register_post_accumulate_grad_hook(self._post_backward_hook)

    def _unshard(self):
        compute = torch.cuda.current_stream()
        self.streams.unshard.wait_stream(compute)
        with torch.cuda.stream(self.streams.unshard):
            dist.all_gather_into_tensor(self.flat.data, self.shard, group=self.group)
        compute.wait_stream(self.streams.unshard)

    def forward(self, x):
        self._unshard()
        parts = self.flat[: sum(self.sizes)].split(self.sizes)
        w1, b1, w2, b2 = (p.view(s) for p, s in zip(parts, self.shapes))
        return x + F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2)

    @torch.no_grad()
    def _post_backward_hook(self, param):
        """Starts the reduction of the full gradient beside the rest of backward."""
        stream = self.streams.post_backward
        stream.wait_stream(self.streams.unshard)
        with torch.cuda.stream(stream):
            grad = param.grad
            grad.div_(self.world)
            dist.reduce_scatter_tensor(self.shard_grad, grad, group=self.group)
            grad.record_stream(stream)
        param.grad = None


class ShardedSGD:
    def __init__(self, blocks, streams, lr=1e-2, momentum=0.9):
        self.blocks = blocks
        self.streams = streams
        self.lr, self.momentum = lr, momentum
        self.state = [torch.zeros_like(b.shard) for b in blocks]

    @torch.no_grad()
    def step(self):
        torch.cuda.current_stream().wait_stream(self.streams.post_backward)
        for block, buf in zip(self.blocks, self.state):
            buf.mul_(self.momentum).add_(block.shard_grad)
            block.shard.sub_(buf, alpha=self.lr)


class ShardedModel(nn.Module):
    def __init__(self, depth, hidden, device, group=None):
        super().__init__()
        self.streams = StreamSet(device)
        self.blocks = nn.ModuleList(
            ShardedBlock(hidden, group, self.streams, device) for _ in range(depth)
        )

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def train(steps=20, hidden=2048, batch=256):
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = ShardedModel(12, hidden, device)
    optimizer = ShardedSGD(list(model.blocks), model.streams)
    for _ in range(steps):
        x = torch.randn(batch, hidden, device=device)
        model(x).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
