"""Training metrics that are read a few steps late so that the loop never stalls."""
from __future__ import annotations

from collections.abc import Callable, Mapping

import torch


class LaggedMetrics:
    def __init__(self, names: list[str], sink: Callable[[int, dict[str, float]], None], lag: int = 4):
        if lag < 1:
            raise ValueError("lag must be at least one")
        self.names = names
        self.sink = sink
        self._host = torch.zeros(lag, len(names), pin_memory=True)
        self._events = [torch.cuda.Event() for _ in range(lag)]
        self._steps: list[int | None] = [None] * lag
        self._cursor = 0

    def _emit(self, row: int) -> None:
        step = self._steps[row]
        if step is None:
            return
        self._events[row].synchronize()
        self._steps[row] = None
        self.sink(step, dict(zip(self.names, self._host[row].tolist())))

    def push(self, step: int, values: Mapping[str, torch.Tensor]) -> None:
        row = self._cursor
        self._cursor = (row + 1) % len(self._events)
        self._emit(row)
        stacked = torch.stack([values[name].detach().float() for name in self.names])
        if not stacked.is_cuda:
            self.sink(step, dict(zip(self.names, stacked.tolist())))
            return
        self._host[row].copy_(stacked, non_blocking=True)
        self._events[row].record(torch.cuda.current_stream(stacked.device))
        self._steps[row] = step

    def flush(self) -> None:
        for offset in range(len(self._events)):
            self._emit((self._cursor + offset) % len(self._events))


class Trainer:
    def __init__(self, model: torch.nn.Module, lr: float, metrics: LaggedMetrics):
        self.model = model
        self.optim = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.metrics = metrics

    def step(self, index: int, x: torch.Tensor, y: torch.Tensor) -> None:
        out = self.model(x)
        loss = torch.nn.functional.cross_entropy(out, y)
        self.optim.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optim.step()
        accuracy = (out.argmax(dim=1) == y).float().mean()
        self.metrics.push(index, {"loss": loss, "norm": norm, "accuracy": accuracy})


def main() -> None:
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    log: list[tuple[int, dict[str, float]]] = []
    metrics = LaggedMetrics(["loss", "norm", "accuracy"], lambda s, m: log.append((s, m)))
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    trainer = Trainer(model.to(device), 0.05, metrics)
    centers = torch.randn(10, 64, device=device)
    try:
        for index in range(200):
            y = torch.randint(0, 10, (256,), device=device)
            x = centers[y] + 0.5 * torch.randn(256, 64, device=device)
            trainer.step(index, x, y)
    finally:
        metrics.flush()
    print(len(log), [s for s, _ in log] == sorted(s for s, _ in log), log[-1])


if __name__ == "__main__":
    main()
