"""Metric logging through a ring of pinned slots."""
import torch
from torch import nn


class MetricRing:
    def __init__(self, names: list, slots: int = 4):
        self.names = names
        self.host = torch.empty(slots, len(names), pin_memory=True)
        self.events = [torch.cuda.Event() for _ in range(slots)]
        self.steps = [None] * slots
        self.sink = []

    def _flush(self, slot: int):
        if self.steps[slot] is None:
            return
        self.events[slot].synchronize()
        self.sink.append((self.steps[slot], dict(zip(self.names, self.host[slot].tolist()))))
        self.steps[slot] = None

    def log(self, step: int, **metrics: torch.Tensor):
        slot = step % len(self.events)
        self._flush(slot)
        packed = torch.stack([metrics[n].detach().float() for n in self.names])
        self.host[slot].copy_(packed, non_blocking=True)
        self.events[slot].record()
        self.steps[slot] = step

    def close(self):
        for slot in range(len(self.events)):
            self._flush(slot)
        return sorted(self.sink, key=lambda r: r[0])


class LoggedTrainer:
    def __init__(self, model: nn.Module):
        self.model = model.cuda()
        self.opt = torch.optim.Adam(self.model.parameters())
        self.ring = MetricRing(["loss", "grad_norm"])

    def fit(self, steps: int):
        for step in range(steps):
            x = torch.randn(32, 64, device="cuda")
            loss = self.model(x).pow(2).mean()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            self.opt.zero_grad()
            self.ring.log(step, loss=loss, grad_norm=norm)
        return self.ring.close()


if __name__ == "__main__":
    for step, row in LoggedTrainer(nn.Linear(64, 64)).fit(30)[-3:]:
        print(step, row)
