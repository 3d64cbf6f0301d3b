"""Training meters that postpone the device-to-host read."""
from collections import deque

import torch
from torch import nn


class DeferredScalar:
    __slots__ = ("step", "_host", "_event")

    def __init__(self, step: int, value: torch.Tensor):
        self.step = step
        self._host = torch.empty((), dtype=value.dtype, pin_memory=True)
        self._host.copy_(value.detach(), non_blocking=True)
        self._event = torch.cuda.Event()
        self._event.record()

    @property
    def ready(self) -> bool:
        return self._event.query()

    @property
    def value(self) -> float:
        self._event.synchronize()
        return self._host.item()


class MeterBoard:
    def __init__(self, max_pending: int = 16):
        self.max_pending = max_pending
        self.pending: deque[DeferredScalar] = deque()
        self.history: list[tuple[int, float]] = []

    def add(self, step: int, value: torch.Tensor) -> None:
        self.pending.append(DeferredScalar(step, value))
        while self.pending and (self.pending[0].ready or len(self.pending) > self.max_pending):
            self._commit(self.pending.popleft())

    def _commit(self, scalar: DeferredScalar) -> None:
        self.history.append((scalar.step, scalar.value))

    def flush(self) -> list[tuple[int, float]]:
        while self.pending:
            self._commit(self.pending.popleft())
        return self.history


def train(steps: int = 300) -> list[tuple[int, float]]:
    model = nn.Sequential(nn.Linear(256, 1024), nn.Tanh(), nn.Linear(1024, 1)).cuda()
    opt = torch.optim.Adam(model.parameters())
    board = MeterBoard()
    total = torch.zeros((), device="cuda")
    for step in range(steps):
        x = torch.randn(128, 256, device="cuda")
        loss = (model(x).squeeze(1) - x.sum(1)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total.add_(loss.detach())
        board.add(step, total / (step + 1))
    return board.flush()


if __name__ == "__main__":
    print(train()[-5:])
