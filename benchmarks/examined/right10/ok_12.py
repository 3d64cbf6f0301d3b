"""A result handle whose value joins the reader's stream on first access."""
from __future__ import annotations

from typing import Callable, Generic, TypeVar

import torch

T = TypeVar("T")


class Deferred(Generic[T]):
    __slots__ = ("_value", "_event", "_seen")

    def __init__(self, value: T, event: torch.cuda.Event):
        self._value = value
        self._event = event
        self._seen: set[int] = set()

    @property
    def value(self) -> T:
        stream = torch.cuda.current_stream()
        if stream.cuda_stream not in self._seen:
            stream.wait_event(self._event)
            self._value.record_stream(stream)
            self._seen.add(stream.cuda_stream)
        return self._value


class Lane:
    def __init__(self, priority: int = 0):
        self.stream = torch.cuda.Stream(priority=priority)

    def submit(self, fn: Callable[..., torch.Tensor], *deps: Deferred[torch.Tensor], **kw) -> Deferred[torch.Tensor]:
        with torch.cuda.stream(self.stream):
            out = fn(*[d.value for d in deps], **kw)
            event = torch.cuda.Event()
            event.record()
        return Deferred(out, event)


def source(seed: int) -> torch.Tensor:
    g = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(1024, 1024, device="cuda", generator=g)


def gram(x: torch.Tensor) -> torch.Tensor:
    return x.T @ x / x.shape[0]


def blend(a: torch.Tensor, b: torch.Tensor, w: float) -> torch.Tensor:
    return torch.lerp(a, b, w)


def main():
    lanes = [Lane(), Lane(), Lane(priority=-1)]
    total = torch.zeros(1024, 1024, device="cuda")
    for i in range(10):
        left = lanes[0].submit(source, seed=2 * i)
        right = lanes[1].submit(source, seed=2 * i + 1)
        mixed = lanes[2].submit(blend, left, right, w=0.25)
        cov = lanes[i % 2].submit(gram, mixed)
        total += cov.value
        total -= mixed.value * 1e-3
    print(total.trace().item())


if __name__ == "__main__":
    main()
