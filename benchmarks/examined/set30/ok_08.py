"""Gradient buckets reduced beside the backward pass; the optimiser reads the bucket views."""
import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params):
        self.params = params
        total = sum(p.numel() for p in params)
        self.flat = torch.zeros(total, device=params[0].device)
        self.left = len(params)
        self.views = {}
        offset = 0
        for p in params:
            self.views[p] = self.flat[offset:offset + p.numel()].view_as(p)
            offset += p.numel()


class Overlapped:
    def __init__(self, module, bucket_numel=1 << 21):
        self.module = module
        self.world = dist.get_world_size()
        self.stream = torch.cuda.Stream()
        self.buckets, self.owner = [], {}
        group = []
        for p in reversed([p for p in module.parameters() if p.requires_grad]):
            group.append(p)
            if sum(q.numel() for q in group) >= bucket_numel:
                self._add(group)
                group = []
        if group:
            self._add(group)
        torch.cuda.synchronize()

    def _add(self, params):
        bucket = Bucket(list(params))
        self.buckets.append(bucket)
        for p in params:
            self.owner[p] = bucket
            p.register_post_accumulate_grad_hook(self._hook)

    @torch.no_grad()
    def _hook(self, p):
        bucket = self.owner[p]
        bucket.views[p].copy_(p.grad)
        p.grad = None
        bucket.left -= 1
        if bucket.left:
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            dist.all_reduce(bucket.flat)
            bucket.flat.div_(self.world)

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        for bucket in self.buckets:
            bucket.left = len(bucket.params)
            for p in bucket.params:
                p.grad = bucket.views[p]

    def detach(self):
        for p in self.owner:
            p.grad = None


def make_model(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers)


def train(steps=50, width=2048, depth=12, batch=256):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = make_model(width, depth).cuda()
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    wrapped = Overlapped(model)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(steps):
        x = torch.randn(batch, width, device="cuda")
        loss = (model(x) - x).square().mean()
        loss.backward()
        wrapped.finish()
        opt.step()
        wrapped.detach()
    value = loss.item()
    dist.destroy_process_group()
    return value


if __name__ == "__main__":
    train()
