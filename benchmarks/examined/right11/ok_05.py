from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Iterator, Optional

import torch
from torch import nn


class Pipelineable:
    def to(self, device: torch.device, non_blocking: bool = False):
        moved = {f.name: _to(getattr(self, f.name), device, non_blocking) for f in fields(self)}
        return type(self)(**moved)

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        for f in fields(self):
            _record(getattr(self, f.name), stream)


def _to(value: Any, device: torch.device, non_blocking: bool) -> Any:
    if isinstance(value, (torch.Tensor, Pipelineable)):
        return value.to(device, non_blocking=non_blocking)
    if isinstance(value, dict):
        return {k: _to(v, device, non_blocking) for k, v in value.items()}
    return value


def _record(value: Any, stream: torch.cuda.Stream) -> None:
    if isinstance(value, (torch.Tensor, Pipelineable)):
        value.record_stream(stream)
    elif isinstance(value, dict):
        for v in value.values():
            _record(v, stream)


@dataclass
class JaggedFeature(Pipelineable):
    values: torch.Tensor
    offsets: torch.Tensor


@dataclass
class Batch(Pipelineable):
    dense: torch.Tensor
    sparse: dict[str, JaggedFeature]
    labels: torch.Tensor


class TrainPipeline:
    """Overlaps the copy of batch i+1 with forward/backward of batch i."""

    def __init__(self, model: nn.Module, opt: torch.optim.Optimizer, device: torch.device) -> None:
        self._model, self._opt, self._device = model, opt, device
        self._memcpy_stream = torch.cuda.Stream(priority=-1)
        self._cur: Optional[Batch] = None
        self._connected = False

    def _fetch(self, it: Iterator[Batch]) -> Optional[Batch]:
        batch = next(it, None)
        if batch is None:
            return None
        with torch.cuda.stream(self._memcpy_stream):
            return batch.to(self._device, non_blocking=True)

    def _wait_for_batch(self, batch: Batch) -> None:
        stream = torch.cuda.current_stream()
        stream.wait_stream(self._memcpy_stream)
        batch.record_stream(stream)

    def progress(self, it: Iterator[Batch]) -> torch.Tensor:
        if not self._connected:
            self._cur = self._fetch(it)
            self._connected = True
        if self._cur is None:
            raise StopIteration
        batch = self._cur
        self._wait_for_batch(batch)
        self._cur = self._fetch(it)
        self._opt.zero_grad()
        loss = self._model(batch)
        loss.backward()
        self._opt.step()
        return loss.detach()


class SparseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleDict({k: nn.EmbeddingBag(1000, 32) for k in ("user", "item")})
        self.head = nn.Linear(13 + 64, 1)

    def forward(self, b: Batch) -> torch.Tensor:
        parts = [self.bags[k](f.values, f.offsets) for k, f in b.sparse.items()]
        logit = self.head(torch.cat([b.dense, *parts], dim=1)).squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(logit, b.labels)


def batches(n: int) -> Iterator[Batch]:
    for _ in range(n):
        sparse = {
            k: JaggedFeature(torch.randint(0, 1000, (256,)).pin_memory(), torch.arange(0, 256, 4).pin_memory())
            for k in ("user", "item")
        }
        yield Batch(torch.randn(64, 13).pin_memory(), sparse, torch.rand(64).round().pin_memory())


if __name__ == "__main__":
    dev = torch.device("cuda")
    net = SparseNet().to(dev)
    pipe = TrainPipeline(net, torch.optim.SGD(net.parameters(), 0.1), dev)
    stream_of_batches = batches(50)
    try:
        while True:
            print(pipe.progress(stream_of_batches).item())
    except StopIteration:
        pass
