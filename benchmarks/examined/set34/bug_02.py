"""Gradient reduce-scatter on a dedicated stream for a sharded trainer."""
import os

import torch
import torch.distributed as dist
from torch import nn


def new_buffer(numel, dtype, device):
    buf = torch.empty(numel, dtype=dtype, device=device)
    buf.fill_(float("nan"))
    return buf


class ShardedGradReducer:
    def __init__(self, params, group=None):
        self.params = [p for p in params if p.requires_grad]
        self.group = group
        self.world = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        self.device = self.params[0].device
        self.comm_stream = torch.cuda.Stream(priority=-1)
        self._in_flight = []

    def _flatten(self, params):
        flat = torch.cat([p.grad.reshape(-1).float() for p in params])
        pad = (-flat.numel()) % self.world
        if pad:
            flat = nn.functional.pad(flat, (0, pad))
        return flat

    def reduce(self, params):
        compute = torch.cuda.current_stream()
        flat = self._flatten(params)
        self.comm_stream.wait_stream(compute)
        shard = new_buffer(flat.numel() // self.world, flat.dtype, self.device)
        with torch.cuda.stream(self.comm_stream):
            dist.reduce_scatter_tensor(shard, flat, op=dist.ReduceOp.AVG, group=self.group)
            done = self.comm_stream.record_event()
        self._in_flight.append((flat, shard, done))
        return shard

    def finish(self):
        compute = torch.cuda.current_stream()
        shards = []
        for _flat, shard, done in self._in_flight:
            compute.wait_event(done)
            shards.append(shard)
        self._in_flight.clear()
        return shards


def train(steps=20):
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    reducer = ShardedGradReducer(model.parameters())
    masters = None
    for _ in range(steps):
        x = torch.randn(64, 2048, device="cuda")
        model(x).square().mean().backward()
        for layer in reversed(model):
            reducer.reduce(list(layer.parameters()))
        shards = reducer.finish()
        if masters is None:
            masters = [torch.zeros_like(s) for s in shards]
        torch._foreach_add_(masters, shards, alpha=-1e-3)
        model.zero_grad(set_to_none=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
