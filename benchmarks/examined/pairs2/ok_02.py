"""Loss meter that never stalls the training loop."""
from collections import deque
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class PendingScalar:
    step: int
    slot: int
    event: torch.cuda.Event


class AsyncLossMeter:
    def __init__(self, depth=4):
        self.depth = depth
        self.host = torch.empty(depth + 1, pin_memory=True)
        self.events = [torch.cuda.Event() for _ in range(depth + 1)]
        self.free = list(range(depth + 1))
        self.pending = deque()
        self.history = []

    def push(self, step, loss):
        slot = self.free.pop()
        self.host[slot].copy_(loss.detach(), non_blocking=True)
        self.events[slot].record()
        self.pending.append(PendingScalar(step, slot, self.events[slot]))
        if len(self.pending) > self.depth:
            self._pop()

    def _pop(self):
        item = self.pending.popleft()
        if not item.event.query():
            item.event.synchronize()
        self.history.append((item.step, float(self.host[item.slot])))
        self.free.append(item.slot)

    def close(self):
        while self.pending:
            self._pop()
        return self.history


def main():
    model = nn.Linear(512, 1).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    meter = AsyncLossMeter(depth=4)
    for step in range(500):
        x = torch.randn(128, 512, device="cuda")
        loss = model(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        meter.push(step, loss)
    for step, value in meter.close():
        print(f"{step}: {value:.4f}")


if __name__ == "__main__":
    main()
