from __future__ import annotations

from collections import deque

import torch
from torch import nn


class Link:
    """One-way channel between two devices with a fixed number of landing buffers."""

    def __init__(self, src: torch.device, dst: torch.device, shape: tuple[int, ...], depth: int = 2) -> None:
        self.src, self.dst = src, dst
        self.stream = torch.cuda.Stream(src)
        with torch.cuda.device(dst):
            self.buffers = [torch.empty(shape, device=dst) for _ in range(depth)]
            self.free: deque[tuple[int, torch.cuda.Event]] = deque()
            for i in range(depth):
                event = torch.cuda.Event()
                event.record(torch.cuda.current_stream(dst))
                self.free.append((i, event))

    def send(self, x: torch.Tensor) -> tuple[int, torch.cuda.Event]:
        index, consumed = self.free.popleft()
        arrived = torch.cuda.Event()
        with torch.cuda.device(self.src):
            self.stream.wait_stream(torch.cuda.current_stream(self.src))
            self.stream.wait_event(consumed)
            with torch.cuda.stream(self.stream):
                self.buffers[index][: x.size(0)].copy_(x, non_blocking=True)
                x.record_stream(self.stream)
                arrived.record(self.stream)
        return index, arrived

    def receive(self, index: int, arrived: torch.cuda.Event, rows: int) -> torch.Tensor:
        torch.cuda.current_stream(self.dst).wait_event(arrived)
        return self.buffers[index][:rows]

    def release(self, index: int) -> None:
        with torch.cuda.device(self.dst):
            event = torch.cuda.Event()
            event.record(torch.cuda.current_stream(self.dst))
        self.free.append((index, event))


class TwoStage:
    def __init__(self, first: nn.Module, second: nn.Module, rows: int, width: int) -> None:
        self.d0, self.d1 = torch.device("cuda", 0), torch.device("cuda", 1)
        self.first, self.second = first.to(self.d0), second.to(self.d1)
        self.link = Link(self.d0, self.d1, (rows, width))

    @torch.inference_mode()
    def run(self, batch: torch.Tensor, micro: int) -> torch.Tensor:
        outputs = []
        for part in batch.to(self.d0).split(micro):
            hidden = self.first(part)
            index, arrived = self.link.send(hidden)
            inbox = self.link.receive(index, arrived, hidden.size(0))
            with torch.cuda.device(self.d1):
                outputs.append(self.second(inbox))
            self.link.release(index)
        return torch.cat(outputs).cpu()


if __name__ == "__main__":
    pipe = TwoStage(
        nn.Sequential(nn.Linear(512, 1024), nn.GELU()),
        nn.Sequential(nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 16)),
        rows=64,
        width=1024,
    )
    print(pipe.run(torch.randn(1000, 512), 64).shape)
