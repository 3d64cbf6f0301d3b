"""Metrics that leave the GPU without stopping it."""
import json
import time
from collections import deque

import torch


class Slot:
    def __init__(self, width):
        self.host = torch.zeros(width, dtype=torch.float32, pin_memory=True)
        self.event = torch.cuda.Event()
        self.names = ()
        self.step = -1


class MetricStream:
    def __init__(self, path, width=64, slots=16, device="cuda"):
        self.device = torch.device(device)
        self.width = width
        self.copy_stream = torch.cuda.Stream(self.device)
        self.free = deque(Slot(width) for _ in range(slots))
        self.flying = deque()
        self.file = open(path, "a", encoding="utf-8")

    def _take(self):
        self.drain()
        while not self.free:
            time.sleep(1e-4)
            self.drain()
        return self.free.popleft()

    @torch.no_grad()
    def push(self, step, metrics):
        slot = self._take()
        slot.step, slot.names = step, tuple(metrics)
        if len(slot.names) > self.width:
            raise ValueError("too many metrics for one slot")
        packed = torch.stack([m.detach().float().reshape(()) for m in metrics.values()])
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.copy_stream):
            slot.host[: packed.numel()].copy_(packed, non_blocking=True)
            slot.event.record()
        packed.record_stream(self.copy_stream)
        self.flying.append(slot)

    def _write(self, slot):
        values = slot.host[: len(slot.names)].tolist()
        row = {"step": slot.step, **dict(zip(slot.names, values))}
        self.file.write(json.dumps(row) + "\n")

    def drain(self):
        """Write out what has arrived; never blocks."""
        while self.flying and self.flying[0].event.query():
            slot = self.flying.popleft()
            self._write(slot)
            self.free.append(slot)

    def close(self):
        while self.flying:
            slot = self.flying.popleft()
            slot.event.synchronize()
            self._write(slot)
            self.free.append(slot)
        self.file.close()


def train(model, loader, optimizer, path, device="cuda"):
    metrics = MetricStream(path, device=device)
    try:
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            out = model(x)
            loss = torch.nn.functional.cross_entropy(out, y)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            accuracy = (out.argmax(-1) == y).float().mean()
            metrics.push(step, {"loss": loss, "norm": norm, "accuracy": accuracy})
    finally:
        metrics.close()
