import time
from collections import deque
from dataclasses import dataclass, field

import torch


@dataclass
class Cell:
    host: torch.Tensor = field(default_factory=lambda: torch.empty(2, pin_memory=True))
    event: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    step: int = -1


class MetricsReader:
    def __init__(self, depth, sink):
        self.idle = deque(Cell() for _ in range(depth))
        self.flying = deque()
        self.sink = sink

    def push(self, step, loss, norm):
        if not self.idle:
            self._pop(wait=True)
        cell = self.idle.popleft()
        cell.step = step
        cell.host.copy_(torch.stack((loss.detach(), norm.detach())), non_blocking=True)
        cell.event.record()
        self.flying.append(cell)

    def _pop(self, wait=False):
        cell = self.flying[0]
        if wait:
            cell.event.synchronize()
        elif not cell.event.query():
            return False
        self.flying.popleft()
        loss, norm = cell.host.tolist()
        self.sink(cell.step, loss, norm)
        self.idle.append(cell)
        return True

    def poll(self):
        while self.flying and self._pop():
            pass

    def close(self):
        while self.flying:
            self._pop(wait=True)


def train(model, opt, loader):
    began = time.time()
    reader = MetricsReader(8, lambda s, a, b: print(f"{time.time() - began:.1f}s {s} {a:.4f} {b:.3f}"))
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        reader.push(step, loss, norm)
        reader.poll()
    reader.close()
