"""Gradients are averaged in buckets during backward; a stream of its own applies the update."""
import os

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params, device):
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device=device)
        self.momentum = torch.zeros_like(self.flat)
        self.views = []
        offset = 0
        for p in params:
            self.views.append(self.flat[offset:offset + p.numel()].view_as(p))
            offset += p.numel()
        self.pending = len(params)
        self.work = None


class OverlappedSGD:
    def __init__(self, model, lr=0.01, momentum=0.9, bucket_numel=4 << 20):
        params = [p for p in reversed(list(model.parameters())) if p.requires_grad]
        self.device = params[0].device
        self.lr, self.momentum = lr, momentum
        self.stream = torch.cuda.Stream(device=self.device)
        self.buckets = []
        group, size = [], 0
        for p in params:
            group.append(p)
            size += p.numel()
            if size >= bucket_numel:
                self._add(group)
                group, size = [], 0
        if group:
            self._add(group)

    def _add(self, params):
        bucket = Bucket(params, self.device)
        self.buckets.append(bucket)
        for p, view in zip(bucket.params, bucket.views):
            p.grad = view
            p.register_hook(lambda _, b=bucket: self._reopen(b))
            p.register_post_accumulate_grad_hook(lambda _, b=bucket: self._ready(b))

    @staticmethod
    def _reopen(bucket):
        if bucket.work is not None:
            bucket.work.wait()
            bucket.work = None
            bucket.pending = len(bucket.params)

    def _ready(self, bucket):
        bucket.pending -= 1
        if bucket.pending == 0:
            self._launch(bucket)

    @staticmethod
    def _launch(bucket):
        bucket.work = dist.all_reduce(bucket.flat, op=dist.ReduceOp.AVG, async_op=True)

    @torch.no_grad()
    def step(self):
        """Applies the averaged gradients and clears them for the next backward."""
        compute = torch.cuda.current_stream(self.device)
        for bucket in self.buckets:
            if bucket.work is None:
                self._launch(bucket)
        self.stream.wait_stream(compute)
        with torch.cuda.stream(self.stream):
            for bucket in self.buckets:
                bucket.work.wait()
                bucket.momentum.mul_(self.momentum).add_(bucket.flat)
                offset = 0
                for p in bucket.params:
                    delta = bucket.momentum[offset:offset + p.numel()].view_as(p)
                    p.sub_(delta, alpha=self.lr)
                    offset += p.numel()
                bucket.flat.zero_()
        compute.wait_stream(self.stream)
        for bucket in self.buckets:
            bucket.work = None
            bucket.pending = len(bucket.params)


def build(hidden, depth, device):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(hidden, hidden), nn.GELU()]
    return nn.Sequential(*layers).to(device)


def main(steps=50, hidden=2048, depth=16):
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = build(hidden, depth, device)
    optimizer = OverlappedSGD(model)
    torch.manual_seed(dist.get_rank())
    for step in range(steps):
        x = torch.randn(256, hidden, device=device)
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 and dist.get_rank() == 0:
            print(step, loss.item())
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
