"""Adaptive clipping: the squared norm is reduced asynchronously and consumed on a side stream."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class NormClipper:
    def __init__(self, params, max_norm, device):
        self.params = list(params)
        self.max_norm = max_norm
        self.side = torch.cuda.Stream(device)
        self.square = torch.zeros((), device=device)
        self.scale = torch.ones((), device=device)
        self.history = torch.zeros(64, device=device)
        self.step_index = 0
        torch.cuda.synchronize(device)

    @torch.no_grad()
    def begin(self):
        """Launches the reduction of the squared gradient norm and what follows from it."""
        torch.cuda.current_stream().wait_stream(self.side)
        self.square.zero_()
        for p in self.params:
            if p.grad is not None:
                self.square.add_(p.grad.square().sum())
        work = dist.all_reduce(self.square, async_op=True)
        with torch.cuda.stream(self.side):
            work.wait()
            slot = self.history[self.step_index % self.history.numel()]
            torch.sqrt(self.square, out=slot)
            torch.reciprocal(slot + 1e-6, out=self.scale)
            self.scale.mul_(self.max_norm).clamp_(max=1.0)
        self.step_index += 1

    @torch.no_grad()
    def apply(self):
        torch.cuda.current_stream().wait_stream(self.side)
        for p in self.params:
            if p.grad is not None:
                p.grad.mul_(self.scale)


def train(steps=50):
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    clipper = NormClipper(model.parameters(), 1.0, torch.device("cuda", rank))
    ema = [torch.zeros_like(p) for p in model.parameters()]
    for _ in range(steps):
        x = torch.randn(512, 256, device="cuda")
        (model(x) - x).square().mean().backward()
        clipper.begin()
        with torch.no_grad():
            torch._foreach_lerp_(ema, list(model.parameters()), 0.01)
        clipper.apply()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    print(rank, clipper.history[:5].tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
