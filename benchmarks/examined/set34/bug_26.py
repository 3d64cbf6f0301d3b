"""Bucketed gradient averaging with a dedicated communication stream."""
import os
from typing import List

import torch
import torch.distributed as dist
import torch.nn as nn


class Bucket:
    def __init__(self, params: List[nn.Parameter]):
        self.params = params
        total = sum(p.numel() for p in params)
        self.flat = torch.zeros(total, device=params[0].device)
        self.views = []
        offset = 0
        for p in params:
            self.views.append(self.flat[offset : offset + p.numel()].view_as(p))
            offset += p.numel()

    def pack(self) -> None:
        torch._foreach_copy_(self.views, [p.grad for p in self.params])

    def unpack(self) -> None:
        torch._foreach_copy_([p.grad for p in self.params], self.views)


class GradientAverager:
    def __init__(self, module: nn.Module, bucket_numel: int = 1 << 22):
        self.world = dist.get_world_size()
        self.stream = torch.cuda.Stream()
        self.buckets: List[Bucket] = []
        self.works = []
        pending, size = [], 0
        for p in module.parameters():
            pending.append(p)
            size += p.numel()
            if size >= bucket_numel:
                self.buckets.append(Bucket(pending))
                pending, size = [], 0
        if pending:
            self.buckets.append(Bucket(pending))

    def launch(self) -> None:
        for bucket in self.buckets:
            bucket.pack()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for bucket in self.buckets:
                bucket.flat.div_(self.world)
                self.works.append(dist.all_reduce(bucket.flat, async_op=True))

    def finish(self) -> None:
        with torch.cuda.stream(self.stream):
            for work in self.works:
                work.wait()
        self.works.clear()
        for bucket in self.buckets:
            bucket.unpack()


def train(steps: int = 100) -> None:
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("cpu:gloo,cuda:nccl")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    averager = GradientAverager(model)
    data = torch.randn(steps, 64, 1024, device="cuda")
    running = torch.zeros((), device="cuda")
    for step in range(steps):
        opt.zero_grad(set_to_none=True)
        loss = (model(data[step]) - data[step]).square().mean()
        loss.backward()
        averager.launch()
        running.mul_(0.9).add_(loss.detach(), alpha=0.1)
        averager.finish()
        opt.step()
    torch.cuda.synchronize()
    if rank == 0:
        print(running.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
