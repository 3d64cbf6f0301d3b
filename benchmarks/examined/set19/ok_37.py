"""Step profiler: device times per stream, losses through pinned cells, no host stalls."""
import torch
from torch import nn


class Span:
    """Start and end events recorded on the stream that runs the measured work."""

    def __init__(self, name):
        self.name = name
        self.start = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)


class StepRecord:
    def __init__(self, index):
        self.index = index
        self.spans = []
        self.loss = torch.empty((), pin_memory=True)
        self.complete = torch.cuda.Event()


class StepProfiler:
    def __init__(self, lag=3):
        self.lag = lag
        self.open = []
        self.rows = []

    def begin(self, index):
        record = StepRecord(index)
        self.open.append(record)
        return record

    def span(self, record, name):
        return _SpanContext(record, name)

    def finish(self, record, loss):
        record.loss.copy_(loss.detach(), non_blocking=True)
        record.complete.record()
        while len(self.open) > self.lag:
            self._flush(self.open.pop(0))

    def _flush(self, record):
        record.complete.synchronize()
        times = {}
        for span in record.spans:
            span.end.synchronize()
            times[span.name] = span.start.elapsed_time(span.end)
        self.rows.append((record.index, record.loss.item(), times))

    def close(self):
        while self.open:
            self._flush(self.open.pop(0))
        return self.rows


class _SpanContext:
    def __init__(self, record, name):
        self.span = Span(name)
        record.spans.append(self.span)

    def __enter__(self):
        self.stream = torch.cuda.current_stream()
        self.span.start.record(self.stream)
        return self.span

    def __exit__(self, *exc):
        self.span.end.record(self.stream)


class Trainer:
    def __init__(self, model, lr=0.01):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.augment_stream = torch.cuda.Stream()
        self.profiler = StepProfiler()

    def _augment(self, record, images):
        self.augment_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.augment_stream):
            with self.profiler.span(record, "augment"):
                noise = torch.randn_like(images) * 0.1
                out = (images + noise).flip(-1)
        images.record_stream(self.augment_stream)
        current = torch.cuda.current_stream()
        current.wait_stream(self.augment_stream)
        out.record_stream(current)
        return out

    def run(self, steps):
        for index in range(steps):
            record = self.profiler.begin(index)
            images = torch.randn(256, 3, 64, 64, device="cuda")
            target = torch.randint(0, 10, (256,), device="cuda")
            images = self._augment(record, images)
            with self.profiler.span(record, "forward"):
                loss = nn.functional.cross_entropy(self.model(images), target)
            with self.profiler.span(record, "backward"):
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
            with self.profiler.span(record, "optimizer"):
                self.optimizer.step()
            self.profiler.finish(record, loss)
        return self.profiler.close()


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 32, 5, stride=2), nn.ReLU(), nn.Flatten(),
                          nn.LazyLinear(10)).cuda()
    model(torch.zeros(1, 3, 64, 64, device="cuda"))
    for row in Trainer(model).run(20)[-3:]:
        print(row)


if __name__ == "__main__":
    main()
