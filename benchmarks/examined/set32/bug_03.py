"""Training monitor: divergence guard with metrics fetched off the critical path."""
from collections import deque

import torch
from torch import nn


class MetricSnapshot:
    """Device scalars moved to the host in one transfer."""

    __slots__ = ("names", "values")

    def __init__(self, metrics):
        self.names = list(metrics)
        packed = torch.stack([metrics[n].detach().float().reshape(()) for n in self.names])
        self.values = packed.to("cpu", non_blocking=True)

    def as_dict(self):
        return dict(zip(self.names, self.values.tolist()))


class DivergenceGuard:
    def __init__(self, window=50, factor=4.0):
        self.history = deque(maxlen=window)
        self.factor = factor
        self.skipped = 0

    def should_skip(self, snapshot):
        row = snapshot.as_dict()
        norm = row["grad_norm"]
        if len(self.history) == self.history.maxlen:
            mean = sum(self.history) / len(self.history)
            if norm != norm or norm > self.factor * mean:
                self.skipped += 1
                return True
        self.history.append(norm)
        return False


class Trainer:
    def __init__(self, model, lr=3e-4, clip=1.0):
        self.model = model
        self.clip = clip
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)
        self.guard = DivergenceGuard()
        self.loss_fn = nn.MSELoss()

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        total = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        snapshot = MetricSnapshot({"loss": loss, "grad_norm": total})
        if self.guard.should_skip(snapshot):
            return None
        self.opt.step()
        return snapshot


def run(steps=1000, width=2048):
    model = nn.Sequential(
        nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
    ).cuda()
    trainer = Trainer(model)
    kept = 0
    for _ in range(steps):
        x = torch.randn(512, width, device="cuda")
        if trainer.step(x, x.roll(1, dims=-1)) is not None:
            kept += 1
    return kept, trainer.guard.skipped


if __name__ == "__main__":
    print(run())
