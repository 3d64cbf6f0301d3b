"""Layer-split executor; several backends may live on one physical device, each with its own stream."""
from typing import List, Optional, Sequence

import torch
from torch import nn


class Backend:
    def __init__(self, name: str, device: int):
        self.name = name
        self.device = torch.device("cuda", device)
        self.stream = torch.cuda.Stream(self.device)
        self.copy_event = torch.cuda.Event()
        self.inbox: Optional[torch.Tensor] = None

    def reserve(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        if self.inbox is None or tuple(self.inbox.shape) != tuple(shape):
            with torch.cuda.stream(self.stream):
                self.inbox = torch.empty(shape, dtype=dtype, device=self.device)
            self.stream.synchronize()
        return self.inbox


def copy_async(src: Backend, dst: Backend, value: torch.Tensor) -> torch.Tensor:
    target = dst.reserve(value.shape, value.dtype)
    # the inbox may still be read by the previous micro-batch
    src.stream.wait_stream(dst.stream)
    if src.device == dst.device:
        with torch.cuda.stream(src.stream):
            target.copy_(value, non_blocking=True)
        return target
    with torch.cuda.stream(src.stream):
        target.copy_(value, non_blocking=True)
        src.copy_event.record(src.stream)
    dst.stream.wait_event(src.copy_event)
    return target


class SplitExecutor:
    def __init__(self, backends: List[Backend], splits: List[nn.Module]):
        self.backends = backends
        self.splits = [s.to(b.device).eval() for s, b in zip(splits, backends)]
        for backend in backends:
            torch.cuda.synchronize(backend.device)

    @torch.no_grad()
    def run(self, batch: torch.Tensor) -> torch.Tensor:
        first = self.backends[0]
        first.stream.wait_stream(torch.cuda.current_stream(first.device))
        with torch.cuda.stream(first.stream):
            value = self.splits[0](batch)
        batch.record_stream(first.stream)
        for index in range(1, len(self.backends)):
            prev, here = self.backends[index - 1], self.backends[index]
            moved = copy_async(prev, here, value)
            with torch.cuda.stream(here.stream):
                value = self.splits[index](moved)
        last = self.backends[-1]
        with torch.cuda.stream(last.stream):
            result = value.clone()
        last.stream.synchronize()
        result.record_stream(torch.cuda.current_stream(last.device))
        return result


def build(virtual: int, width: int, depth: int) -> SplitExecutor:
    count = torch.cuda.device_count()
    backends = [Backend(f"gpu{i}", i % count) for i in range(virtual)]
    backends.sort(key=lambda b: b.device.index)
    splits = [
        nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)])
        for _ in range(virtual)
    ]
    return SplitExecutor(backends, splits)


def main() -> None:
    executor = build(virtual=2 * torch.cuda.device_count(), width=4096, depth=8)
    for _ in range(100):
        out = executor.run(torch.randn(2048, 4096, device="cuda:0"))
    print(out.float().mean())


if __name__ == "__main__":
    main()
