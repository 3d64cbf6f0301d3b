"""Streaming inference: three captured graphs, each bound to its own input slot."""
from typing import Iterable, Iterator, List

import torch
from torch import nn

DEPTH = 3


class SlotGraph:
    def __init__(self, model: nn.Module, shape, device: torch.device, stream: torch.cuda.Stream):
        self.host = torch.zeros(shape, pin_memory=True)
        with torch.cuda.stream(stream):
            self.x = torch.zeros(shape, device=device)
            for _ in range(2):
                model(self.x)
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = model(self.x)
        self.filled = torch.cuda.Event()
        self.drained = torch.cuda.Event()


class StreamingModel:
    @torch.no_grad()
    def __init__(self, model: nn.Module, shape, device: torch.device):
        model = model.to(device).eval()
        torch.cuda.current_stream(device).synchronize()
        self.compute = torch.cuda.Stream(device=device)
        self.upload = torch.cuda.Stream(device=device)
        self.slots: List[SlotGraph] = [SlotGraph(model, shape, device, self.compute) for _ in range(DEPTH)]
        self.model = model
        self.fed = 0
        self.taken = 0

    def feed(self, sample: torch.Tensor) -> None:
        if self.fed - self.taken == DEPTH:
            raise BufferError("all slots hold unread results")
        slot = self.slots[self.fed % DEPTH]
        slot.filled.synchronize()
        slot.host.copy_(sample.detach())
        with torch.cuda.stream(self.upload):
            self.upload.wait_event(slot.drained)
            slot.x.copy_(slot.host, non_blocking=True)
            slot.filled.record(self.upload)
        with torch.cuda.stream(self.compute):
            self.compute.wait_event(slot.filled)
            slot.graph.replay()
            slot.drained.record(self.compute)
        self.fed += 1

    def take(self) -> torch.Tensor:
        if self.taken == self.fed:
            raise BufferError("nothing was fed")
        slot = self.slots[self.taken % DEPTH]
        with torch.cuda.stream(self.compute):
            result = slot.y.cpu()
        self.taken += 1
        return result

    def map(self, samples: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
        for sample in samples:
            while self.fed - self.taken >= DEPTH - 1:
                yield self.take()
            self.feed(sample)
        while self.taken < self.fed:
            yield self.take()

    def close(self) -> None:
        self.upload.synchronize()
        self.compute.synchronize()
        self.slots.clear()
