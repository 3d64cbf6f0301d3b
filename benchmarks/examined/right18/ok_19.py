"""Delayed scalar logging: values are read several steps after they are produced."""
import torch


class DelayedScalars:
    def __init__(self, names, lag=4, device="cuda"):
        self.names = list(names)
        self.lag = lag
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.rows = torch.zeros(lag, len(self.names), pin_memory=True)
        self.events = [None] * lag
        self.stamps = [None] * lag
        self.log = []

    def record(self, step, values):
        slot = step % self.lag
        if self.events[slot] is not None:
            self._take(slot)
        packed = torch.stack([values[n].detach().float().reshape(()) for n in self.names])
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.rows[slot].copy_(packed, non_blocking=True)
            self.events[slot] = self.stream.record_event()
        packed.record_stream(self.stream)
        self.stamps[slot] = step

    def _take(self, slot):
        self.events[slot].synchronize()
        row = self.rows[slot].tolist()
        self.log.append((self.stamps[slot], dict(zip(self.names, row))))
        self.events[slot] = None

    def flush(self):
        pending = [s for s in range(self.lag) if self.events[s] is not None]
        for slot in sorted(pending, key=lambda s: self.stamps[s]):
            self._take(slot)
        return self.log

    def latest(self):
        done = [
            s
            for s in range(self.lag)
            if self.events[s] is not None and self.events[s].query()
        ]
        if not done:
            return self.log[-1] if self.log else None
        slot = max(done, key=lambda s: self.stamps[s])
        return self.stamps[slot], dict(zip(self.names, self.rows[slot].tolist()))


def train(model, optimizer, batches, loss_fn):
    scalars = DelayedScalars(["loss", "norm"])
    for step, (x, y) in enumerate(batches):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(x), y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scalars.record(step, {"loss": loss, "norm": norm})
        loss.detach_().zero_()
    return scalars.flush()
