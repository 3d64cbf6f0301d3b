"""Metric log that reads device scalars some steps after they were computed."""
from collections import deque

import torch
from torch import nn


class LaggedLog:
    """Ring of pinned rows; ``add`` stalls only when the ring has wrapped."""

    def __init__(self, names, depth=8, sink=print):
        self.names = tuple(names)
        self.sink = sink
        self._rows = torch.empty(depth, len(self.names), pin_memory=True)
        self._events = [torch.cuda.Event() for _ in range(depth)]
        self._pending = deque()
        self._cursor = 0

    def add(self, step, **scalars):
        slot = self._cursor % len(self._events)
        if len(self._pending) == len(self._events):
            self._emit(*self._pending.popleft())
        packed = torch.stack([scalars[n].detach().float() for n in self.names])
        self._rows[slot].copy_(packed, non_blocking=True)
        self._events[slot].record()
        self._pending.append((step, slot))
        self._cursor += 1

    def poll(self):
        while self._pending and self._events[self._pending[0][1]].query():
            self._emit(*self._pending.popleft())

    def flush(self):
        while self._pending:
            self._emit(*self._pending.popleft())

    def _emit(self, step, slot):
        self._events[slot].synchronize()
        self.sink(step, dict(zip(self.names, self._rows[slot].tolist())))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.flush()
        return False


def grad_norm(params):
    grads = [p.grad for p in params if p.grad is not None]
    return torch.stack(torch._foreach_norm(grads)).norm()


def main(steps=50):
    device = torch.device("cuda")
    model = nn.Linear(128, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    with LaggedLog(("loss", "grad_norm"), depth=4) as log:
        for step in range(steps):
            x = torch.randn(64, 128, device=device)
            loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            loss.backward()
            log.add(step, loss=loss, grad_norm=grad_norm(list(model.parameters())))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if step % 10 == 9:
                log.poll()


if __name__ == "__main__":
    main()
