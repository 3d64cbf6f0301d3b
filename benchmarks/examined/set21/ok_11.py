from collections import deque
from dataclasses import dataclass
from typing import Deque, Iterator, Optional

import torch
import torch.nn as nn


@dataclass
class RecBatch:
    dense: torch.Tensor
    ids: torch.Tensor
    offsets: torch.Tensor
    labels: torch.Tensor

    def to(self, device: torch.device, non_blocking: bool = False) -> "RecBatch":
        return RecBatch(*(t.to(device, non_blocking=non_blocking) for t in self.tensors()))

    def pin_memory(self) -> "RecBatch":
        return RecBatch(*(t.pin_memory() for t in self.tensors()))

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        for t in self.tensors():
            t.record_stream(stream)

    def tensors(self):
        return self.dense, self.ids, self.offsets, self.labels


class TrainPipelineBase:
    """Uploads batch i+1 while batch i is in the forward and backward."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device):
        self._model = model
        self._optimizer = optimizer
        self._device = device
        self._memcpy_stream = torch.cuda.Stream(device)
        self._batches: Deque[RecBatch] = deque()

    def _enqueue(self, it: Iterator[RecBatch]) -> bool:
        host: Optional[RecBatch] = next(it, None)
        if host is None:
            return False
        with torch.cuda.stream(self._memcpy_stream):
            self._batches.append(host.pin_memory().to(self._device, non_blocking=True))
        return True

    def progress(self, it: Iterator[RecBatch]) -> torch.Tensor:
        if not self._batches and not self._enqueue(it):
            raise StopIteration
        main = torch.cuda.current_stream(self._device)
        main.wait_stream(self._memcpy_stream)
        batch = self._batches.popleft()
        batch.record_stream(main)
        self._enqueue(it)
        self._optimizer.zero_grad(set_to_none=True)
        logits = self._model(batch.dense, batch.ids, batch.offsets)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)
        loss.backward()
        self._optimizer.step()
        return loss.detach()


class TinyDLRM(nn.Module):
    def __init__(self, rows: int, dim: int):
        super().__init__()
        self.emb = nn.EmbeddingBag(rows, dim, mode="sum")
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, dim))
        self.top = nn.Sequential(nn.Linear(2 * dim, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, dense, ids, offsets):
        return self.top(torch.cat([self.bottom(dense), self.emb(ids, offsets)], dim=1)).squeeze(1)


def batches(n: int, size: int = 8192, rows: int = 1_000_000) -> Iterator[RecBatch]:
    for _ in range(n):
        lengths = torch.randint(1, 20, (size,))
        offsets = torch.cumsum(lengths, 0) - lengths
        ids = torch.randint(0, rows, (int(lengths.sum()),))
        yield RecBatch(torch.rand(size, 13), ids, offsets, torch.rand(size).round())


def main() -> float:
    device = torch.device("cuda")
    model = TinyDLRM(1_000_000, 128).to(device)
    pipeline = TrainPipelineBase(model, torch.optim.SGD(model.parameters(), lr=0.1), device)
    it, losses = batches(200), []
    while True:
        try:
            losses.append(pipeline.progress(it))
        except StopIteration:
            break
    return torch.stack(losses).mean().item()
