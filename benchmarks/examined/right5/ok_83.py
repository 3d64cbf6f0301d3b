import contextvars
from contextlib import contextmanager
from typing import Optional

import torch
from torch import nn

_overlap: contextvars.ContextVar[Optional["OverlapRegion"]] = contextvars.ContextVar("overlap", default=None)


class OverlapRegion:
    def __init__(self, stream: torch.cuda.Stream):
        self.stream = stream
        self.kept = []
        self.dirty = False

    def run(self, fn, *tensors):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            fn(*tensors)
        self.kept.extend(tensors)
        self.dirty = True

    def close(self):
        if self.dirty:
            torch.cuda.current_stream().wait_stream(self.stream)
        self.kept.clear()


@contextmanager
def overlap(stream: torch.cuda.Stream):
    region = OverlapRegion(stream)
    token = _overlap.set(region)
    try:
        yield region
    finally:
        _overlap.reset(token)
        region.close()


def maybe_overlap(fn, *tensors):
    region = _overlap.get()
    if region is None:
        fn(*tensors)
    else:
        region.run(fn, *tensors)


class RunningStats(nn.Module):
    def __init__(self, dim, momentum=0.01):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("second", torch.ones(dim))

    def _update(self, x):
        self.mean.lerp_(x.mean(0), self.momentum)
        self.second.lerp_(x.square().mean(0), self.momentum)

    def forward(self, x):
        y = (x - self.mean) * torch.rsqrt(self.second - self.mean.square() + 1e-3)
        maybe_overlap(self._update, x)
        return y


@torch.no_grad()
def main():
    layers = nn.ModuleList(nn.ModuleList([RunningStats(512), nn.Linear(512, 512)]) for _ in range(6)).cuda()
    side = torch.cuda.Stream()
    for step in range(50):
        x = torch.randn(1024, 512, device="cuda")
        with overlap(side):
            for stats, fc in layers:
                x = x + torch.tanh(fc(stats(x)))
    print([s.mean.norm().item() for s, _ in layers], x.std().item())


if __name__ == "__main__":
    main()
