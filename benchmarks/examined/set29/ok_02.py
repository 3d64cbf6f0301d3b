"""Training loop that reads its loss one update step late, off the training stream."""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class _Slot:
    host: torch.Tensor
    done: torch.cuda.Event
    tag: int = -1


class AsyncTensorExchange:
    """Hands a device scalar over now and gives back the value of the previous call."""

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)
        self.slots = [
            _Slot(torch.empty((), dtype=torch.float32, pin_memory=True), torch.cuda.Event())
            for _ in range(2)
        ]
        self.index = 0
        self.pending: _Slot | None = None

    def exchange(self, value: torch.Tensor, tag: int) -> tuple[int, float] | None:
        snapshot = value.detach().float().clone()
        self.stream.wait_stream(torch.cuda.current_stream())
        slot = self.slots[self.index]
        self.index = 1 - self.index
        with torch.cuda.stream(self.stream):
            slot.host.copy_(snapshot, non_blocking=True)
            snapshot.record_stream(self.stream)
            slot.done.record(self.stream)
        slot.tag = tag
        previous, self.pending = self.pending, slot
        return None if previous is None else self._read(previous)

    def flush(self) -> tuple[int, float] | None:
        previous, self.pending = self.pending, None
        return None if previous is None else self._read(previous)

    @staticmethod
    def _read(slot: _Slot) -> tuple[int, float]:
        slot.done.synchronize()
        return slot.tag, slot.host.item()


class Trainer:
    def __init__(self, model: nn.Module, lr: float, accumulation: int) -> None:
        self.device = torch.device("cuda")
        self.model = model.to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.accumulation = accumulation
        self.exchange = AsyncTensorExchange(self.device)
        self.history: list[tuple[int, float]] = []

    def _log(self, entry: tuple[int, float] | None) -> None:
        if entry is None:
            return
        if math.isnan(entry[1]):
            raise RuntimeError(f"loss is NaN at update {entry[0]}")
        self.history.append(entry)

    def train(self, batches) -> list[tuple[int, float]]:
        accumulated = torch.zeros((), device=self.device)
        update = 0
        for i, (x, y) in enumerate(batches):
            x = x.pin_memory().to(self.device, non_blocking=True)
            y = y.pin_memory().to(self.device, non_blocking=True)
            loss = nn.functional.mse_loss(self.model(x), y) / self.accumulation
            loss.backward()
            accumulated += loss.detach()
            if (i + 1) % self.accumulation == 0:
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                self._log(self.exchange.exchange(accumulated, update))
                accumulated.zero_()
                update += 1
        self._log(self.exchange.flush())
        return self.history


if __name__ == "__main__":
    net = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 16))
    data = [(torch.randn(256, 1024), torch.randn(256, 16)) for _ in range(64)]
    print(Trainer(net, 1e-3, 4).train(data)[-1])
