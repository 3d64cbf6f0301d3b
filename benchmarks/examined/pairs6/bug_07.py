"""Embedding tables trained with host resident RMSprop state."""
from typing import NamedTuple

import torch
import torch.nn as nn


class Shadow(NamedTuple):
    weight: torch.Tensor
    grad: torch.Tensor
    square: torch.Tensor


class OffloadedRMSprop:
    def __init__(self, module, lr=1e-3, alpha=0.99, eps=1e-8):
        self.lr, self.alpha, self.eps = lr, alpha, eps
        self.shadows = {}
        for p in module.parameters():
            weight = p.detach().cpu().pin_memory()
            self.shadows[p] = Shadow(weight, torch.zeros_like(weight).pin_memory(), torch.zeros_like(weight))
        self.d2h_stream = torch.cuda.Stream()

    def _fetch(self):
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        fetched = []
        with torch.cuda.stream(self.d2h_stream):
            for p, shadow in self.shadows.items():
                shadow.grad.copy_(p.grad, non_blocking=True)
                event = torch.cuda.Event()
                event.record(self.d2h_stream)
                fetched.append((p, shadow, event))
        return fetched

    @torch.no_grad()
    def step(self):
        for p, shadow, event in self._fetch():
            torch.cuda.current_stream().wait_event(event)
            shadow.square.mul_(self.alpha).addcmul_(shadow.grad, shadow.grad, value=1 - self.alpha)
            shadow.weight.addcdiv_(shadow.grad, shadow.square.sqrt().add_(self.eps), value=-self.lr)
            p.copy_(shadow.weight)
            p.grad = None


class TwoTower(nn.Module):
    def __init__(self, users=200_000, items=500_000, dim=64):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1)


def main():
    model = TwoTower().cuda()
    optimizer = OffloadedRMSprop(model)
    bce = nn.BCEWithLogitsLoss()
    for _ in range(1000):
        u = torch.randint(0, 200_000, (8192,), device="cuda")
        i = torch.randint(0, 500_000, (8192,), device="cuda")
        y = torch.rand(8192, device="cuda").round()
        bce(model(u, i), y).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
