"""Data-parallel training with hand-written gradient buckets (torchrun)."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Bucket:
    def __init__(self, params, device):
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device=device)
        self.views = []
        at = 0
        for p in params:
            self.views.append(self.flat[at:at + p.numel()].view_as(p))
            at += p.numel()
        self.missing = len(params)


class OverlappedReducer:
    """Starts the reduction of a bucket as soon as its last gradient arrives."""

    def __init__(self, model, device, cap=4 << 20):
        self.device = device
        self.world = dist.get_world_size()
        self.stream = torch.cuda.Stream(device)
        self.works = []
        self.buckets = self._partition(list(model.parameters()), cap)
        for b in self.buckets:
            for p, view in zip(b.params, b.views):
                p.register_post_accumulate_grad_hook(self._hook(b, view))

    def _partition(self, params, cap):
        buckets, group, size = [], [], 0
        for p in reversed(params):
            group.append(p)
            size += p.numel()
            if size >= cap:
                buckets.append(Bucket(group, self.device))
                group, size = [], 0
        if group:
            buckets.append(Bucket(group, self.device))
        return buckets

    def _hook(self, bucket, view):
        def hook(param):
            view.copy_(param.grad)
            bucket.missing -= 1
            if bucket.missing == 0:
                self._reduce(bucket)
        return hook

    def _reduce(self, bucket):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            work = dist.all_reduce(bucket.flat, op=dist.ReduceOp.SUM, async_op=True)
            self.works.append(work)
            bucket.flat.div_(self.world)

    def finish(self):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        for b in self.buckets:
            for p, view in zip(b.params, b.views):
                p.grad.copy_(view)
            b.missing = len(b.params)
        self.works.clear()


def make_model(dim, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(dim, dim), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(dim, 1))


def broadcast_parameters(model):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)


def main(dim=2048, depth=8, steps=50):
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(dist.get_rank())
    model = make_model(dim, depth).to(device)
    broadcast_parameters(model)
    reducer = OverlappedReducer(model, device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(steps):
        x = torch.randn(256, dim, device=device)
        loss = (model(x) - x.mean(dim=1, keepdim=True)).square().mean()
        opt.zero_grad()
        loss.backward()
        reducer.finish()
        opt.step()
        if step % 10 == 0 and dist.get_rank() == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
