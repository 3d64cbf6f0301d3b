"""Sharded parameter groups with a persistent main gradient reduced on a reduce-scatter stream."""
import torch
import torch.distributed as dist
from torch import nn


class ParameterGroup:
    def __init__(self, module, group, rs_stream):
        self.module = module
        self.group = group
        self.rs_stream = rs_stream
        self.world = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        self.params = list(module.parameters())
        numel = sum(p.numel() for p in self.params)
        self.padded = (numel + self.world - 1) // self.world * self.world
        self.shard = self.padded // self.world
        self.main_grad = torch.zeros(self.shard, dtype=torch.float32, device="cuda")
        self.seen = 0
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._hook)

    def _hook(self, param):
        self.seen += 1
        if self.seen == len(self.params):
            self.seen = 0
            self._post_backward()

    def _flatten(self):
        flat = torch.zeros(self.padded, dtype=torch.float32, device="cuda")
        offset = 0
        for p in self.params:
            flat[offset:offset + p.numel()].copy_(p.grad.view(-1))
            offset += p.numel()
            p.grad = None
        return flat

    def _post_backward(self):
        flat = self._flatten()
        self.rs_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.rs_stream):
            out = torch.empty(self.shard, dtype=torch.float32, device="cuda")
            dist.reduce_scatter_tensor(out, flat, group=self.group)
            self.main_grad.add_(out, alpha=1.0 / self.world)
            flat.record_stream(self.rs_stream)

    @torch.no_grad()
    def step(self, lr):
        flat = torch.cat([p.detach().view(-1).float() for p in self.params])
        flat = nn.functional.pad(flat, (0, self.padded - flat.numel()))
        mine = flat[self.rank * self.shard:(self.rank + 1) * self.shard].clone()
        mine.add_(self.main_grad, alpha=-lr)
        full = torch.empty(self.padded, dtype=torch.float32, device="cuda")
        dist.all_gather_into_tensor(full, mine, group=self.group)
        offset = 0
        for p in self.params:
            p.copy_(full[offset:offset + p.numel()].view_as(p))
            offset += p.numel()
        self.main_grad.zero_()


class FsdpTrainer:
    def __init__(self, layers, group):
        self.rs_stream = torch.cuda.Stream()
        self.layers = layers
        self.groups = [ParameterGroup(m, group, self.rs_stream) for m in layers]

    def finalize_backward(self):
        torch.cuda.current_stream().wait_stream(self.rs_stream)

    def train_step(self, micro_batches, lr):
        for mb in micro_batches:
            x = mb.cuda(non_blocking=True)
            for layer in self.layers:
                x = layer(x)
            x.float().square().mean().backward()
        self.finalize_backward()
        for g in self.groups:
            g.step(lr)
