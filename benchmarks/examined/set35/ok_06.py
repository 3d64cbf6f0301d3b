"""Training loop that keeps per-parameter gradient norms."""
from dataclasses import dataclass, field
from typing import Dict, List

import torch
import torch.nn as nn


@dataclass
class History:
    loss: List[float] = field(default_factory=list)
    norms: List[List[float]] = field(default_factory=list)
    worst: Dict[int, int] = field(default_factory=dict)


class GradientProbe:
    """Collects the norm of every gradient into one device vector."""

    def __init__(self, model: nn.Module):
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.host = torch.empty(len(self.params), pin_memory=True)

    @torch.no_grad()
    def queue(self) -> torch.Tensor:
        norms = torch.stack(torch._foreach_norm([p.grad for p in self.params]))
        self.host.copy_(norms, non_blocking=True)
        return norms


class Loop:
    def __init__(self, model: nn.Module, lr: float, clip: float):
        self.model = model
        self.clip = clip
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.probe = GradientProbe(model)
        self.history = History()

    def step(self, index: int, x: torch.Tensor, y: torch.Tensor) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        norms = self.probe.queue()
        total = norms.square().sum().sqrt()
        scale = (self.clip / (total + 1e-6)).clamp(max=1.0)
        for p in self.probe.params:
            p.grad.mul_(scale)
        self.optimizer.step()
        value = loss.item()
        host = self.probe.host
        self.history.loss.append(value)
        self.history.norms.append(host.tolist())
        self.history.worst[index] = int(host.argmax())
        return value


class Batches:
    def __init__(self, count: int, rows: int, dim: int):
        self.count = count
        self.rows = rows
        self.target = torch.randn(dim, dim, device="cuda") / dim ** 0.5
        self.dim = dim

    def __iter__(self):
        for _ in range(self.count):
            x = torch.randn(self.rows, self.dim, device="cuda")
            yield x, x @ self.target


def main() -> None:
    model = nn.Sequential(
        nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(),
        nn.Linear(4096, 1024)).cuda()
    loop = Loop(model, lr=1e-2, clip=1.0)
    for index, (x, y) in enumerate(Batches(50, 512, 1024)):
        loop.step(index, x, y)
    print(loop.history.loss[-1], loop.history.worst[49])


if __name__ == "__main__":
    main()
