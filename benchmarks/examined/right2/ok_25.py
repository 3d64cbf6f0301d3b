import torch
import torch.nn as nn


class MetricRing:
    """Collects scalars in pinned memory and reports them every few steps."""

    def __init__(self, names, every: int):
        self.names = list(names)
        self.every = every
        self.rows = torch.zeros(every, len(self.names), pin_memory=True)
        self.stream = torch.cuda.Stream()
        self.step = 0

    def push(self, **values: torch.Tensor):
        row = self.rows[self.step % self.every]
        packed = torch.stack([values[n].detach().float() for n in self.names])
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            row.copy_(packed, non_blocking=True)
        packed.record_stream(self.stream)
        self.step += 1
        if self.step % self.every == 0:
            return self._report()
        return None

    def _report(self):
        torch.cuda.synchronize()
        mean = self.rows.mean(dim=0).tolist()
        return dict(zip(self.names, mean))

    def finish(self):
        torch.cuda.synchronize()
        left = self.step % self.every
        if left == 0:
            return None
        return dict(zip(self.names, self.rows[:left].mean(dim=0).tolist()))


def train(model: nn.Module, loader, optimizer, log, every: int = 32):
    metrics = MetricRing(("loss", "accuracy", "grad_norm"), every)
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        accuracy = (logits.argmax(dim=1) == y).float().mean()
        report = metrics.push(loss=loss, accuracy=accuracy, grad_norm=norm)
        if report is not None:
            log(report)
    report = metrics.finish()
    if report is not None:
        log(report)
