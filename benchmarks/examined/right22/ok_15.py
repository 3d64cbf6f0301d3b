from dataclasses import dataclass, field, replace
from typing import Optional

import torch


@dataclass
class Source:
    shape: tuple
    stream: torch.cuda.Stream = field(default_factory=torch.cuda.Stream)
    seed: int = 0

    def draw(self):
        gen = torch.Generator(device="cuda").manual_seed(self.seed)
        self.seed += 1
        with torch.cuda.stream(self.stream):
            return torch.randn(self.shape, device="cuda", generator=gen)


@dataclass
class Filter:
    cut: float
    stream: Optional[torch.cuda.Stream] = None

    def __post_init__(self):
        if self.stream is None:
            self.stream = torch.cuda.Stream()

    def smooth(self, x):
        with torch.cuda.stream(self.stream):
            f = torch.fft.rfft(x, dim=-1)
            keep = int(f.shape[-1] * self.cut)
            f[..., keep:] = 0
            return torch.fft.irfft(f, n=x.shape[-1], dim=-1)


@dataclass
class Sink:
    stream: Optional[torch.cuda.Stream] = None
    rows: list = field(default_factory=list)

    def __post_init__(self):
        if self.stream is None:
            self.stream = torch.cuda.Stream()

    def keep(self, y):
        with torch.cuda.stream(self.stream):
            self.rows.append(y.var(dim=-1).mean())

    def finish(self):
        with torch.cuda.stream(self.stream):
            out = torch.stack(self.rows).to("cpu")
        self.rows.clear()
        return out


def pipeline(source, cuts):
    made = []
    base = Filter(1.0, source.stream)
    for cut in cuts:
        made.append((replace(base, cut=cut), Sink(base.stream)))
    return made


def main():
    source = Source((64, 4096))
    legs = pipeline(source, [0.1, 0.3, 0.6])
    for _ in range(15):
        x = source.draw()
        for low, sink in legs:
            sink.keep(low.smooth(x))
    for low, sink in legs:
        print(low.cut, sink.finish().mean().item())


if __name__ == "__main__":
    main()
