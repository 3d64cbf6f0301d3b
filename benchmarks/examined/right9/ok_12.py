import abc

import torch


class Stage(abc.ABC):
    """A pipeline stage with its own stream."""

    def __init__(self, upstream=None):
        self.upstream = upstream
        self.stream = torch.cuda.Stream()
        self.finished = torch.cuda.Event()
        self.downstream = None
        if upstream is not None:
            upstream.downstream = self

    def _acquire(self):
        if self.upstream is not None:
            self.stream.wait_event(self.upstream.finished)
        if self.downstream is not None:
            self.stream.wait_event(self.downstream.finished)

    def tick(self):
        self._acquire()
        with torch.cuda.stream(self.stream):
            self.process()
        self.finished.record(self.stream)

    @abc.abstractmethod
    def process(self):
        ...


class Ingest(Stage):
    def __init__(self, frames, shape):
        super().__init__()
        self.frames = frames
        self.index = 0
        with torch.cuda.stream(self.stream):
            self.output = torch.zeros(shape, device="cuda")

    def process(self):
        self.output.copy_(self.frames[self.index % len(self.frames)], non_blocking=True)
        self.index += 1


class Denoise(Stage):
    def __init__(self, upstream):
        super().__init__(upstream)
        with torch.cuda.stream(self.stream):
            self.output = torch.zeros(upstream.output.shape, device="cuda")

    def process(self):
        x = self.upstream.output
        self.output.copy_(torch.nn.functional.avg_pool2d(x, 3, stride=1, padding=1))


class Histogram(Stage):
    def __init__(self, upstream, bins=64):
        super().__init__(upstream)
        with torch.cuda.stream(self.stream):
            self.counts = torch.zeros(bins, device="cuda")

    def process(self):
        self.counts += torch.histc(self.upstream.output, bins=self.counts.numel(), min=0.0, max=1.0)

    def result(self):
        self.finished.synchronize()
        with torch.cuda.stream(self.stream):
            return self.counts.cpu()


def main():
    shape = (1, 3, 720, 1280)
    frames = [torch.rand(shape).pin_memory() for _ in range(8)]
    ingest = Ingest(frames, shape)
    denoise = Denoise(ingest)
    hist = Histogram(denoise)
    torch.cuda.synchronize()
    for _ in range(240):
        for stage in (ingest, denoise, hist):
            stage.tick()
    print(hist.result())


if __name__ == "__main__":
    main()
