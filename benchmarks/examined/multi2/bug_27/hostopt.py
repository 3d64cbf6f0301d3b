from collections import deque

import torch


class HostSGD:
    """Momentum SGD on the host, applied `delay` turns after the gradients."""

    def __init__(self, buckets, shuttle, lr=0.01, momentum=0.9, delay=1):
        self.buckets = buckets
        self.shuttle = shuttle
        self.lr, self.momentum = lr, momentum
        self.delay = delay
        self.turn = 0
        self._state = {b.name: torch.zeros_like(b.master) for b in buckets}
        self._waiting = deque()

    def step(self):
        self._waiting.append([(b, self.shuttle.send(b, self.turn)) for b in self.buckets])
        self.turn += 1
        while len(self._waiting) > self.delay:
            self._apply(self._waiting.popleft())

    def zero_grad(self):
        for b in self.buckets:
            b.clear()

    def _apply(self, loads):
        for bucket, crate in loads:
            grad = crate.open().float()
            m = self._state[bucket.name]
            m.mul_(self.momentum).add_(grad)
            bucket.master.add_(m, alpha=-self.lr)
            bucket.publish()

    def drain(self):
        while self._waiting:
            self._apply(self._waiting.popleft())
