"""Training loop that mirrors its metrics to the host once per step."""
from dataclasses import dataclass
from typing import List

import torch
import torch.nn as nn


@dataclass
class Record:
    step: int
    loss: float
    grad_norm: float
    skipped: bool


class MetricMirror:
    """Copies a vector of metrics out and tells whether the step is usable."""

    def __init__(self, names: List[str], device: torch.device):
        self.names = names
        self.device_values = torch.zeros(len(names), device=device)
        self.host_values = torch.zeros(len(names), pin_memory=True)

    def publish(self, values: List[torch.Tensor]) -> bool:
        torch.stack([v.detach().float() for v in values], out=self.device_values)
        self.host_values.copy_(self.device_values, non_blocking=True)
        return bool(torch.isfinite(self.device_values).all().item())

    def read(self) -> List[float]:
        return self.host_values.tolist()


class Trainer:
    def __init__(self, width: int = 2048, stream: bool = True):
        self.device = torch.device("cuda", 0)
        self.model = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        ).to(self.device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self.mirror = MetricMirror(["loss", "grad_norm"], self.device)
        self.history: List[Record] = []
        self.stream = torch.cuda.Stream(self.device) if stream else torch.cuda.default_stream()
        torch.cuda.synchronize(self.device)

    def _grad_norm(self) -> torch.Tensor:
        norms = torch._foreach_norm([p.grad for p in self.model.parameters()])
        return torch.linalg.vector_norm(torch.stack(norms))

    def step(self, index: int, batch: torch.Tensor) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        batch.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            loss = (self.model(batch) - batch).square().mean()
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            norm = self._grad_norm()
            usable = self.mirror.publish([loss, norm])
            values = self.mirror.read()
            if usable:
                self.opt.step()
        self.history.append(Record(index, values[0], values[1], not usable))


def main(steps: int = 100) -> None:
    trainer = Trainer()
    for i in range(steps):
        trainer.step(i, torch.randn(512, 2048, device=trainer.device))
    skipped = sum(r.skipped for r in trainer.history)
    print(trainer.history[-1], skipped)


if __name__ == "__main__":
    main()
