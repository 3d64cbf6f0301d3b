"""Gathers sharded layer weights just in time and drops them after use."""
from collections import deque

import torch
import torch.distributed as dist
import torch.nn.functional as F


class ShardedLinear:
    def __init__(self, full_weight, group=None):
        world, rank = dist.get_world_size(group), dist.get_rank(group)
        self.shape = full_weight.shape
        flat = full_weight.detach().reshape(-1)
        pad = (-flat.numel()) % world
        flat = F.pad(flat, (0, pad))
        self.numel = full_weight.numel()
        self.shard = flat.chunk(world)[rank].clone().cuda()
        self.world = world
        self.full = None
        self.ready = None

    def weight(self):
        return self.full[:self.numel].view(self.shape)


class GatheringRunner:
    def __init__(self, layers, group=None, max_inflight=2):
        self.layers = layers
        self.group = group
        self.stream = torch.cuda.Stream()
        self.max_inflight = max_inflight
        self.released = deque()

    def _unshard(self, layer):
        if layer.full is not None:
            return
        while len(self.released) >= self.max_inflight:
            self.released.popleft().synchronize()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            full = layer.shard.new_empty(layer.shard.numel() * layer.world)
            dist.all_gather_into_tensor(full, layer.shard, group=self.group)
            layer.ready = self.stream.record_event()
        layer.full = full

    def _reshard(self, layer):
        if layer.full is None:
            return
        compute = torch.cuda.current_stream()
        compute.wait_event(layer.ready)
        layer.full.record_stream(compute)
        self.released.append(compute.record_event())
        layer.full = None

    @torch.no_grad()
    def forward(self, x):
        try:
            for i, layer in enumerate(self.layers):
                self._unshard(layer)
                if i + 1 < len(self.layers):
                    self._unshard(self.layers[i + 1])
                torch.cuda.current_stream().wait_event(layer.ready)
                x = F.relu(F.linear(x, layer.weight()))
                self._reshard(layer)
        finally:
            for layer in self.layers:
                self._reshard(layer)
        return x

    @torch.no_grad()
    def apply_update(self, deltas, lr):
        for layer, delta in zip(self.layers, deltas):
            layer.shard.add_(delta, alpha=-lr)


def evaluate(runner, batches):
    total = torch.zeros((), device="cuda")
    for x in batches:
        total += runner.forward(x.cuda()).square().mean()
    return total.item() / max(len(batches), 1)
