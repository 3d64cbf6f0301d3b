import json

import torch
from torch import nn


class MetricRing:
    """Copies per-step scalars to pinned rows and drains them a window at a time."""

    def __init__(self, window: int, names):
        self.window = window
        self.names = list(names)
        self.rows = torch.zeros(window, len(self.names), pin_memory=True)
        self.steps = [0] * window
        self.filled = 0
        self.records = []

    def push(self, step: int, *scalars: torch.Tensor) -> None:
        self.rows[self.filled].copy_(torch.stack([s.detach() for s in scalars]), non_blocking=True)
        self.steps[self.filled] = step
        self.filled += 1
        if self.filled == self.window:
            self.drain()

    def drain(self) -> None:
        if self.filled == 0:
            return
        torch.cuda.synchronize()
        for i in range(self.filled):
            self.records.append({"step": self.steps[i], **dict(zip(self.names, self.rows[i].tolist()))})
        self.filled = 0


def train(steps=1000):
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    opt = torch.optim.Adam(net.parameters())
    ring = MetricRing(64, ["loss", "grad_norm", "target_mean"])
    for step in range(steps):
        x = torch.randn(512, 64, device="cuda")
        target = x.sum(1, keepdim=True).sin()
        loss = nn.functional.mse_loss(net(x), target)
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        ring.push(step, loss, norm, target.mean())
    ring.drain()
    with open("metrics.jsonl", "w") as f:
        for r in ring.records:
            f.write(json.dumps(r) + "\n")


if __name__ == "__main__":
    train()
