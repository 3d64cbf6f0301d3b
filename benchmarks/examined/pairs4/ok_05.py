"""Deferred metric collection for a training loop."""
from collections import defaultdict, deque

import torch
from torch import nn


class MetricSink:
    """Copies scalars to the host and averages them at the end."""

    def __init__(self):
        self.pending = deque()
        self.values = defaultdict(list)

    def log(self, step, **scalars):
        names = list(scalars)
        packed = torch.stack([scalars[n].detach().float() for n in names])
        host = torch.empty(len(names), pin_memory=True)
        host.copy_(packed, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        self.pending.append((step, names, host, done))
        self._drain()

    def _drain(self, block=False):
        while self.pending:
            step, names, host, done = self.pending[0]
            if block:
                done.synchronize()
            elif not done.query():
                return
            self.pending.popleft()
            for name, value in zip(names, host.tolist()):
                self.values[name].append((step, value))

    def close(self):
        self._drain(block=True)
        return {k: sum(v for _, v in xs) / len(xs) for k, xs in self.values.items()}


def main():
    model = nn.Linear(256, 256).cuda()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    sink = MetricSink()
    for step in range(1000):
        x = torch.randn(128, 256, device="cuda")
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        norm = model.weight.grad.norm()
        opt.step()
        sink.log(step, loss=loss, grad_norm=norm)
    print(sink.close())


if __name__ == "__main__":
    main()
