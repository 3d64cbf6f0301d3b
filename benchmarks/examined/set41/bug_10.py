"""Bucketed gradient reduction overlapped with backward."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class GradBucket:
    def __init__(self, params, device):
        self.params = list(params)
        total = sum(p.numel() for p in self.params)
        self.flat = torch.zeros(total, device=device)
        self.views, offset = {}, 0
        for p in self.params:
            self.views[p] = self.flat[offset: offset + p.numel()].view_as(p)
            offset += p.numel()
        self.pending = len(self.params)

    def reset(self):
        self.pending = len(self.params)


class OverlappedReducer:
    def __init__(self, module, bucket_elems=1 << 20):
        self.module = module
        self.device = next(module.parameters()).device
        self.fill_stream = torch.cuda.Stream(self.device)
        self.comm_stream = torch.cuda.Stream(self.device)
        self.world = dist.get_world_size()
        self.buckets = self._partition(bucket_elems)
        self.owner = {p: b for b in self.buckets for p in b.params}
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _partition(self, limit):
        groups, cur, size = [], [], 0
        for p in reversed(list(self.module.parameters())):
            cur.append(p)
            size += p.numel()
            if size >= limit:
                groups.append(cur)
                cur, size = [], 0
        if cur:
            groups.append(cur)
        return [GradBucket(g, self.device) for g in groups]

    def _on_grad(self, p):
        bucket = self.owner[p]
        self.fill_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.fill_stream):
            bucket.views[p].copy_(p.grad)
            bucket.views[p].mul_(1.0 / self.world)
        bucket.pending -= 1
        if bucket.pending == 0:
            self._reduce(bucket)

    def _reduce(self, bucket):
        self.comm_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.comm_stream):
            dist.all_reduce(bucket.flat)

    def finish(self):
        here = torch.cuda.current_stream(self.device)
        here.wait_stream(self.fill_stream)
        here.wait_stream(self.comm_stream)
        for bucket in self.buckets:
            for p in bucket.params:
                p.grad.copy_(bucket.views[p])
            bucket.reset()
        self.fill_stream.wait_stream(here)


def build(dim=1024, depth=8):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(dim, dim), nn.GELU()]
    return nn.Sequential(*layers)


def main():
    rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = build().cuda()
    reducer = OverlappedReducer(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(20):
        x = torch.randn(64, 1024, device="cuda")
        loss = model(x).pow(2).mean()
        loss.backward()
        reducer.finish()
        opt.step()
        opt.zero_grad(set_to_none=False)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
