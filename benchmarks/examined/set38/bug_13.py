"""Contiguous gradient buckets reduced on a separate stream while backward goes on."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class IpgBucket:
    def __init__(self, numel, device):
        self.buffer = [torch.empty(numel, device=device) for _ in range(2)]
        self.index = 0
        self.clear()

    def clear(self):
        self.params = []
        self.elements = 0
        self.index = 0

    def has_room(self, n):
        return self.elements + n <= self.buffer[0].numel()


class OverlapReducer:
    def __init__(self, model, bucket_numel):
        device = next(model.parameters()).device
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.averaged = {p: torch.zeros_like(p) for p in self.params}
        self.bucket = IpgBucket(bucket_numel, device)
        self.reduction_stream = torch.cuda.Stream(device=device)
        self.previous = None
        self.world = dist.get_world_size()
        for p in self.params:
            p.register_post_accumulate_grad_hook(self.on_grad)
        torch.cuda.synchronize(device)

    def on_grad(self, param):
        n = param.numel()
        if not self.bucket.has_room(n):
            self.reduce_ipg_grads()
        b = self.bucket
        view = b.buffer[b.index].narrow(0, b.elements, n)
        view.copy_(param.grad.view(-1))
        b.params.append((param, b.elements))
        b.elements += n
        param.grad = None

    def reduce_ipg_grads(self):
        b = self.bucket
        compute = torch.cuda.current_stream()
        if self.previous is not None:
            compute.wait_event(self.previous)
        flat = b.buffer[b.index].narrow(0, 0, b.elements)
        self.reduction_stream.wait_stream(compute)
        with torch.cuda.stream(self.reduction_stream):
            flat.div_(self.world)
            dist.all_reduce(flat)
            for param, off in b.params:
                self.averaged[param].view(-1).copy_(flat.narrow(0, off, param.numel()))
            self.previous = self.reduction_stream.record_event()
        b.index = 1 - b.index
        b.clear()

    def finish(self):
        if self.bucket.elements:
            self.reduce_ipg_grads()
        torch.cuda.current_stream().wait_stream(self.reduction_stream)
        self.previous = None


def build(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers).cuda()


def train(steps=10):
    model = build(2048, 12)
    reducer = OverlapReducer(model, 2048 * 2048 + 2048)
    for step in range(steps):
        x = torch.randn(256, 2048, device="cuda")
        model(x).pow(2).mean().backward()
        reducer.finish()
        with torch.no_grad():
            for p in reducer.params:
                p.add_(reducer.averaged[p], alpha=-1e-2)
    return sum(p.norm().item() for p in reducer.params)


def main():
    rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    total = train()
    if rank == 0:
        print(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
