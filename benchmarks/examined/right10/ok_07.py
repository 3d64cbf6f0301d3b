"""Bucketed gradient averaging launched from hooks and collected ahead of the optimizer."""
import os

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params):
        self.params = params
        self.flat = torch.empty(sum(p.numel() for p in params), device=params[0].device)
        self.missing = set(params)
        self.work = None

    def slices(self):
        offset = 0
        for p in self.params:
            yield p, self.flat[offset : offset + p.numel()].view_as(p)
            offset += p.numel()


class GradSync:
    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer, cap: int = 1 << 20):
        self.world = dist.get_world_size()
        self.of = {}
        self.buckets = []
        group, size = [], 0
        for p in reversed(list(module.parameters())):
            group.append(p)
            size += p.numel()
            if size >= cap:
                self._seal(group)
                group, size = [], 0
        if group:
            self._seal(group)
        for p in self.of:
            p.register_post_accumulate_grad_hook(self._on_grad)
        optimizer.register_step_pre_hook(self._collect)

    def _seal(self, group):
        bucket = Bucket(group)
        self.buckets.append(bucket)
        self.of.update({p: bucket for p in group})

    def _on_grad(self, p):
        bucket = self.of[p]
        bucket.missing.discard(p)
        if not bucket.missing:
            for q, view in bucket.slices():
                view.copy_(q.grad)
            bucket.work = dist.all_reduce(bucket.flat, async_op=True)

    def _collect(self, *_):
        for bucket in self.buckets:
            bucket.work.wait()
            bucket.flat.div_(self.world)
            for p, view in bucket.slices():
                p.grad.copy_(view)
            bucket.work = None
            bucket.missing = set(bucket.params)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    opt = torch.optim.Adam(model.parameters())
    GradSync(model, opt)
    for _ in range(100):
        x = torch.randn(32, 1024, device="cuda")
        model(x).square().mean().backward()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
