"""Training metrics are read a few steps late so that the host never stalls the device."""
from collections import deque
from typing import NamedTuple

import torch
from torch import nn


class Entry(NamedTuple):
    step: int
    values: torch.Tensor
    arrived: torch.cuda.Event


class MetricLog:
    def __init__(self, names, lag=3):
        self.names = names
        self.lag = lag
        self.stream = torch.cuda.Stream()
        self.queue = deque()
        self.rows = []

    def push(self, step, *scalars):
        stacked = torch.stack([s.detach().float() for s in scalars])
        self.stream.wait_stream(torch.cuda.current_stream())
        stacked.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            host = torch.empty(len(scalars), pin_memory=True)
            host.copy_(stacked, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
        self.queue.append(Entry(step, host, arrived))
        self._collect(self.lag)

    def _collect(self, keep):
        while self.queue and (len(self.queue) > keep or self.queue[0].arrived.query()):
            entry = self.queue.popleft()
            entry.arrived.synchronize()
            self.rows.append((entry.step, dict(zip(self.names, entry.values.tolist()))))

    def close(self):
        self._collect(0)
        return self.rows


def main():
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    log = MetricLog(["loss", "grad_norm", "act"])
    for step in range(200):
        x = torch.randn(256, 512, device="cuda")
        out = model(x)
        loss = (out - x).pow(2).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        log.push(step, loss, norm, out.abs().mean())
    for row in log.close()[-3:]:
        print(row)


if __name__ == "__main__":
    main()
