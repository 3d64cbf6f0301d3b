"""Materialises full parameters on demand and drops their storage after use."""
import torch
import torch.distributed as dist
import torch.nn as nn


class LazyUnit:
    def __init__(self, module, group, stream):
        self.module = module
        self.group = group
        self.stream = stream
        self.params = list(module.parameters())
        self.shapes = [p.shape for p in self.params]
        flat = torch.cat([p.detach().reshape(-1) for p in self.params])
        world = dist.get_world_size(group)
        rank = dist.get_rank(group)
        pad = -flat.numel() % world
        flat = torch.nn.functional.pad(flat, (0, pad))
        self.size = flat.numel()
        self.shard = flat.view(world, -1)[rank].clone()
        self.device = flat.device
        self.full = None
        self.event = None
        for p in self.params:
            p.requires_grad_(False)
            p.data = torch.empty(0, dtype=p.dtype, device=p.device)

    def unshard(self):
        if self.full is not None:
            return
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            full = torch.empty(self.size, dtype=self.shard.dtype, device=self.device)
            dist.all_gather_into_tensor(full, self.shard, group=self.group)
            self.event = self.stream.record_event()
        self.full = full

    def use(self):
        self.unshard()
        here = torch.cuda.current_stream(self.device)
        here.wait_event(self.event)
        self.full.record_stream(here)
        offset = 0
        for p, shape in zip(self.params, self.shapes):
            n = shape.numel()
            p.data = self.full[offset : offset + n].view(shape)
            offset += n

    def reshard(self):
        if self.full is None:
            return
        for p in self.params:
            p.data = torch.empty(0, dtype=p.dtype, device=self.device)
        self.full.untyped_storage().resize_(0)
        self.full = None
        self.event = None


class LazyModel(nn.Module):
    def __init__(self, blocks, group=None):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        self.units = [LazyUnit(b, group, stream) for b in self.blocks]

    @torch.no_grad()
    def forward(self, x):
        try:
            for i, unit in enumerate(self.units):
                unit.use()
                if i + 1 < len(self.units):
                    self.units[i + 1].unshard()
                x = unit.module(x)
                unit.reshard()
        finally:
            for unit in self.units:
                unit.reshard()
        return x
