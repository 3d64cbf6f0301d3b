"""Training metrics without stalling the step: values are read several steps after they were sent."""
import collections
import json
from typing import Deque, NamedTuple

import torch


class Reading(NamedTuple):
    step: int
    host: torch.Tensor
    arrived: torch.cuda.Event


class MetricTap:
    def __init__(self, names, max_in_flight: int = 8):
        self.names = list(names)
        self.max_in_flight = max_in_flight
        self._flight: Deque[Reading] = collections.deque()
        self._spare = []

    def _host_row(self) -> torch.Tensor:
        if self._spare:
            return self._spare.pop()
        return torch.empty(len(self.names), pin_memory=True)

    def send(self, step: int, values: dict) -> None:
        row = torch.stack([values[n].detach().float() for n in self.names])
        host = self._host_row()
        host.copy_(row, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        self._flight.append(Reading(step, host, done))

    def _emit(self, reading: Reading) -> dict:
        record = {"step": reading.step, **dict(zip(self.names, reading.host.tolist()))}
        self._spare.append(reading.host)
        return record

    def poll(self):
        while self._flight:
            head = self._flight[0]
            if len(self._flight) > self.max_in_flight:
                head.arrived.synchronize()
            elif not head.arrived.query():
                break
            yield self._emit(self._flight.popleft())

    def close(self):
        while self._flight:
            head = self._flight.popleft()
            head.arrived.synchronize()
            yield self._emit(head)


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 1)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    tap = MetricTap(["loss", "grad_norm"])
    with open("metrics.jsonl", "w") as out:
        for step in range(500):
            x = torch.randn(64, 256, device="cuda")
            loss = model(x).square().mean()
            opt.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            tap.send(step, {"loss": loss, "grad_norm": norm})
            for rec in tap.poll():
                out.write(json.dumps(rec) + "\n")
        for rec in tap.close():
            out.write(json.dumps(rec) + "\n")


if __name__ == "__main__":
    main()
