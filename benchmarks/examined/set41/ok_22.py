"""Optimizer-state offload: gradients leave the device bucket by bucket during backward."""
import argparse
import math
from dataclasses import dataclass
from typing import Dict, List

import torch
import torch.nn as nn


@dataclass
class OffloadHyper:
    lr: float = 1e-3
    momentum: float = 0.9
    clip: float = 1.0
    bucket_params: int = 4


class Bucket:
    def __init__(self, params: List[nn.Parameter]):
        self.params = params
        self.offsets: Dict[nn.Parameter, int] = {}
        n = 0
        for p in params:
            self.offsets[p] = n
            n += p.numel()
        dev = params[0].device
        self.dev_grad = torch.zeros(n, device=dev)
        self.host_grad = torch.zeros(n, pin_memory=True)
        self.host_mom = torch.zeros(n)
        self.host_master = torch.cat([p.detach().flatten().float().cpu() for p in params])
        self.left = len(params)

    def put(self, p: nn.Parameter) -> bool:
        o = self.offsets[p]
        self.dev_grad[o:o + p.numel()].copy_(p.grad.flatten())
        self.left -= 1
        return self.left == 0

    def pull(self) -> None:
        self.host_grad.copy_(self.dev_grad, non_blocking=True)

    def push(self) -> None:
        for p in self.params:
            o = self.offsets[p]
            p.data.copy_(self.host_master[o:o + p.numel()].view_as(p))
        self.left = len(self.params)


class OffloadedSGD:
    def __init__(self, model: nn.Module, hyper: OffloadHyper):
        self.h = hyper
        params = [p for p in model.parameters() if p.requires_grad]
        k = hyper.bucket_params
        self.buckets = [Bucket(params[i:i + k]) for i in range(0, len(params), k)]
        self.lookup = {p: b for b in self.buckets for p in b.params}
        self.device = params[0].device
        for p in params:
            p.register_post_accumulate_grad_hook(self._hook)

    def _hook(self, p: nn.Parameter) -> None:
        b = self.lookup[p]
        if b.put(p):
            b.pull()
        p.grad = None

    def _scale(self) -> float:
        total = math.sqrt(sum(float(b.host_grad.pow(2).sum()) for b in self.buckets))
        return min(1.0, self.h.clip / (total + 1e-6))

    @torch.no_grad()
    def step(self) -> float:
        torch.cuda.current_stream(self.device).synchronize()
        scale = self._scale()
        for b in self.buckets:
            b.host_mom.mul_(self.h.momentum).add_(b.host_grad, alpha=scale)
            b.host_master.add_(b.host_mom, alpha=-self.h.lr)
        for b in self.buckets:
            b.push()
        return scale


class Regressor(nn.Module):
    def __init__(self, dim: int, depth: int):
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        for l in self.body:
            x = x + torch.tanh(l(x))
        return self.head(x).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=1024)
    ap.add_argument("--depth", type=int, default=12)
    ap.add_argument("--iters", type=int, default=40)
    args = ap.parse_args()
    dev = torch.device("cuda")
    model = Regressor(args.dim, args.depth).to(dev)
    opt = OffloadedSGD(model, OffloadHyper())
    for it in range(args.iters):
        x = torch.randn(1024, args.dim, device=dev)
        loss = (model(x) - x.sum(1)).pow(2).mean()
        loss.backward()
        s = opt.step()
        if it % 10 == 0:
            print(it, loss.item(), s)


if __name__ == "__main__":
    main()
