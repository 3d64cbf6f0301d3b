"""Training metrics that reach the host a few steps late."""
from __future__ import annotations

from collections import deque
from typing import Callable

import torch


class MetricLog:
    def __init__(self, names: list[str], sink: Callable[[int, dict], None], depth: int = 8) -> None:
        self.names = names
        self.sink = sink
        self.depth = depth
        self.rows = torch.zeros(depth, len(names), pin_memory=True)
        self.view = self.rows.numpy()
        self.events = [torch.cuda.Event() for _ in range(depth)]
        self.pending: deque[tuple[int, int]] = deque()
        self.head = 0

    def push(self, step: int, **values: torch.Tensor) -> None:
        if len(self.pending) == self.depth:
            self._emit()
        packed = torch.stack([values[n].detach().float().reshape(()) for n in self.names])
        slot = self.head
        self.rows[slot].copy_(packed, non_blocking=True)
        self.events[slot].record()
        self.pending.append((step, slot))
        self.head = (slot + 1) % self.depth

    def _emit(self) -> None:
        step, slot = self.pending.popleft()
        self.events[slot].synchronize()
        self.sink(step, dict(zip(self.names, self.view[slot].tolist())))

    def poll(self) -> int:
        count = 0
        while self.pending and self.events[self.pending[0][1]].query():
            step, slot = self.pending.popleft()
            self.sink(step, dict(zip(self.names, self.view[slot].tolist())))
            count += 1
        return count

    def flush(self) -> None:
        while self.pending:
            self._emit()

    def __enter__(self) -> "MetricLog":
        return self

    def __exit__(self, *exc) -> None:
        self.flush()


def train(model: torch.nn.Module, batches, lr: float = 1e-3) -> list[tuple[int, dict]]:
    history: list[tuple[int, dict]] = []
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    with MetricLog(["loss", "norm"], lambda s, m: history.append((s, m))) as log:
        for step, (x, y) in enumerate(batches):
            loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
            opt.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            log.push(step, loss=loss, norm=norm)
            if step % 4 == 3:
                log.poll()
    return history


if __name__ == "__main__":
    net = torch.nn.Linear(32, 1).cuda()
    data = [(torch.randn(64, 32), torch.randn(64, 1)) for _ in range(50)]
    for step, metrics in train(net, data)[-3:]:
        print(step, metrics)
