"""Local SGD: replicas average their parameters every few steps, in the background."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class PeriodicAverager:
    def __init__(self, module, period):
        self.params = list(module.parameters())
        self.period = period
        self.finish_stream = torch.cuda.Stream()
        self.flat = torch.zeros(sum(p.numel() for p in self.params), device="cuda")
        self.work = None
        self.calls = 0

    def _views(self):
        offset = 0
        for p in self.params:
            yield p, self.flat[offset:offset + p.numel()].view_as(p)
            offset += p.numel()

    @torch.no_grad()
    def start(self):
        for p, view in self._views():
            view.copy_(p)
        self.work = dist.all_reduce(self.flat, async_op=True)

    @torch.no_grad()
    def finish(self):
        with torch.cuda.stream(self.finish_stream):
            self.work.wait()
            self.flat.div_(dist.get_world_size())
        for p, view in self._views():
            p.copy_(view)
        self.work = None

    def after_step(self, overlap):
        self.calls += 1
        if self.calls % self.period:
            return
        self.start()
        overlap()
        self.finish()


def validate(model, total, n=4):
    with torch.no_grad():
        for _ in range(n):
            x = torch.randn(512, 1024, device="cuda")
            total.add_((model(x) - x).abs().mean())


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(nn.Linear(1024, 8192), nn.ReLU(), nn.Linear(8192, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    averager = PeriodicAverager(model, period=8)
    total = torch.zeros((), device="cuda")
    for _ in range(800):
        x = torch.randn(64, 1024, device="cuda")
        (model(x) - x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        averager.after_step(lambda: validate(model, total))
    print(total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
