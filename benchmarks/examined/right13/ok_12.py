"""Loss and grad-norm logging that trails the device by a few steps."""
from collections import deque

import torch


class LaggedMetrics:
    def __init__(self, names, slots=8, device="cuda"):
        self.names = tuple(names)
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.host = torch.empty(slots, len(self.names), dtype=torch.float32, pin_memory=True)
        self.idle = deque(range(slots))
        self.flying = deque()
        self.history = []

    def _collect(self, slot, step):
        self.history.append((step, dict(zip(self.names, self.host[slot].tolist()))))
        self.idle.append(slot)

    def poll(self):
        while self.flying:
            slot, step, event = self.flying[0]
            if not event.query():
                return
            self.flying.popleft()
            self._collect(slot, step)

    def log(self, step, **values):
        self.poll()
        if not self.idle:
            slot, old_step, event = self.flying.popleft()
            event.synchronize()
            self._collect(slot, old_step)
        packed = torch.stack([values[n].detach().float() for n in self.names])
        slot = self.idle.popleft()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.host[slot].copy_(packed, non_blocking=True)
            event = self.stream.record_event()
        packed.record_stream(self.stream)
        self.flying.append((slot, step, event))

    def flush(self):
        self.stream.synchronize()
        self.poll()
        return self.history


def train(model, opt, batches, max_norm=1.0):
    metrics = LaggedMetrics(("loss", "grad_norm"))
    for step, (x, y) in enumerate(batches):
        opt.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        opt.step()
        metrics.log(step, loss=loss, grad_norm=norm)
        if metrics.history and metrics.history[-1][1]["loss"] > 1e4:
            break
    return metrics.flush()
