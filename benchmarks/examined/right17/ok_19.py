"""Scalar metric logging with delayed readback."""
import json
from typing import Dict, IO, List, Optional

import torch


class MetricRing:
    def __init__(self, names: List[str], sink: IO[str], depth: int = 16):
        self.names = names
        self.sink = sink
        self.rows = torch.empty(depth, len(names), pin_memory=True)
        self.events = [torch.cuda.Event() for _ in range(depth)]
        self.steps: List[Optional[int]] = [None] * depth
        self.head = 0
        self.sums: Dict[str, float] = {n: 0.0 for n in names}
        self.count = 0

    def _read(self, i: int) -> None:
        step = self.steps[i]
        if step is None:
            return
        self.steps[i] = None
        self.events[i].synchronize()
        values = dict(zip(self.names, self.rows[i].tolist()))
        for name, value in values.items():
            self.sums[name] += value
        self.count += 1
        self.sink.write(json.dumps({"step": step, **values}) + "\n")

    def log(self, step: int, **metrics: torch.Tensor) -> None:
        i = self.head
        self._read(i)
        packed = torch.stack([metrics[n].detach().float().reshape(()) for n in self.names])
        self.rows[i].copy_(packed, non_blocking=True)
        self.events[i].record(torch.cuda.current_stream(packed.device))
        self.steps[i] = step
        self.head = (i + 1) % len(self.steps)

    def flush(self) -> Dict[str, float]:
        for k in range(len(self.steps)):
            self._read((self.head + k) % len(self.steps))
        self.sink.flush()
        count = max(self.count, 1)
        means = {n: s / count for n, s in self.sums.items()}
        self.sums = {n: 0.0 for n in self.names}
        self.count = 0
        return means


def train(model, batches, optimizer, sink: IO[str]) -> Dict[str, float]:
    ring = MetricRing(["loss", "grad_norm", "accuracy"], sink)
    try:
        for step, (x, y) in enumerate(batches):
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            hits = (logits.detach().argmax(-1) == y).float().mean()
            ring.log(step, loss=loss, grad_norm=norm, accuracy=hits)
    finally:
        summary = ring.flush()
    return summary
