"""Hybrid-sharded gradient reduction with gradients offloaded to the host."""
import os
from typing import NamedTuple, Optional

import torch
import torch.distributed as dist
import torch.nn as nn


class OffloadState(NamedTuple):
    reduced: torch.Tensor
    event: torch.cuda.Event


class CommContext:
    def __init__(self, device):
        self.reduce_scatter_stream = torch.cuda.Stream(device)
        self.offload_stream = torch.cuda.Stream(device)
        self.offload_state: Optional[OffloadState] = None

    def drain(self):
        if self.offload_state is not None:
            self.reduce_scatter_stream.wait_event(self.offload_state.event)
            self.offload_state = None


class ParamGroup:
    def __init__(self, layer, ctx, world):
        self.params = list(layer.parameters())
        self.ctx, self.world = ctx, world
        self.numel = -(-sum(p.numel() for p in self.params) // world) * world
        self.cpu_grad = torch.zeros(self.numel // world, pin_memory=True)

    def post_backward(self):
        ctx = self.ctx
        flat = torch.zeros(self.numel, device=self.params[0].device)
        torch.cat([p.grad.reshape(-1) for p in self.params], out=flat[:sum(p.numel() for p in self.params)])
        ctx.drain()
        ctx.reduce_scatter_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(ctx.reduce_scatter_stream):
            reduced = torch.empty(self.numel // self.world, device=flat.device)
            dist.reduce_scatter_tensor(reduced, flat)
            reduced.div_(self.world)
        flat.record_stream(ctx.reduce_scatter_stream)
        ctx.offload_stream.wait_stream(ctx.reduce_scatter_stream)
        with torch.cuda.stream(ctx.offload_stream):
            self.cpu_grad.copy_(reduced, non_blocking=True)
            ctx.offload_state = OffloadState(reduced, ctx.offload_stream.record_event())


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    ctx = CommContext(device)
    layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(8)).to(device)
    groups = [ParamGroup(layer, ctx, dist.get_world_size()) for layer in layers]
    for _ in range(50):
        x = torch.randn(64, 1024, device=device)
        for layer in layers:
            x = torch.relu(layer(x))
        layers.zero_grad()
        x.mean().backward()
        for group in reversed(groups):
            group.post_backward()
        ctx.offload_stream.synchronize()
        print(sum(float(g.cpu_grad.norm()) for g in groups))


if __name__ == "__main__":
    main()
