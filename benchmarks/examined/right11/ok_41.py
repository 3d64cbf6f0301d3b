from __future__ import annotations

from collections import deque
from typing import Callable, NamedTuple

import torch
from torch import nn


class Pending(NamedTuple):
    step: int
    names: tuple[str, ...]
    host: torch.Tensor
    event: torch.cuda.Event


class MetricLogger:
    """Collects device scalars and reports them once they have reached the host."""

    def __init__(self, sink: Callable[[int, dict[str, float]], None], limit: int = 64) -> None:
        self.sink = sink
        self.limit = limit
        self.pending: deque[Pending] = deque()
        self.spare: list[torch.Tensor] = []

    def __enter__(self) -> "MetricLogger":
        return self

    def __exit__(self, *exc) -> None:
        while self.pending:
            self._report(block=True)

    def _report(self, block: bool) -> bool:
        head = self.pending[0]
        if block:
            head.event.synchronize()
        elif not head.event.query():
            return False
        self.pending.popleft()
        values = head.host[: len(head.names)].tolist()
        self.sink(head.step, dict(zip(head.names, values)))
        self.spare.append(head.host)
        return True

    def log(self, step: int, **scalars: torch.Tensor) -> None:
        packed = torch.stack([s.detach().float().reshape(()) for s in scalars.values()])
        host = self.spare.pop() if self.spare else torch.empty(16, pin_memory=True)
        host[: packed.numel()].copy_(packed, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self.pending.append(Pending(step, tuple(scalars), host, event))
        while self.pending and self._report(block=len(self.pending) > self.limit):
            pass


def main() -> None:
    history: list[tuple[int, dict[str, float]]] = []
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    with MetricLogger(lambda step, row: history.append((step, row))) as logger:
        for step in range(500):
            x = torch.randn(256, 128, device="cuda")
            target = (x[:, 0] > 0).long()
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, target)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            logger.log(step, loss=loss, norm=norm, acc=(logits.argmax(1) == target).float().mean())
    print(len(history), history[-1])


if __name__ == "__main__":
    main()
