from collections import deque
from dataclasses import dataclass
from typing import Deque, Dict, Iterator, Optional

import torch
import torch.nn as nn


@dataclass
class Batch:
    keys: torch.Tensor
    lengths: torch.Tensor
    labels: torch.Tensor


@dataclass
class PrefetchState:
    rows: torch.Tensor
    inverse: torch.Tensor
    unique_keys: torch.Tensor


class HostStorage:
    """Embedding rows in host memory."""

    def __init__(self, capacity: int, dim: int):
        self.values = torch.randn(capacity, dim) * 0.01

    def find(self, keys: torch.Tensor) -> torch.Tensor:
        out = torch.empty(keys.numel(), self.values.shape[1], pin_memory=True)
        torch.index_select(self.values, 0, keys, out=out)
        return out


class BatchedDynamicEmbeddingTables(nn.Module):
    def __init__(self, capacity: int, dim: int, device: torch.device):
        super().__init__()
        self.storage = HostStorage(capacity, dim)
        self.device = device
        self._prefetch_states: Deque[PrefetchState] = deque()

    def prefetch(self, keys: torch.Tensor, forward_stream: torch.cuda.Stream) -> None:
        unique, inverse = torch.unique(keys, return_inverse=True)
        rows = self.storage.find(unique).to(self.device, non_blocking=True)
        inverse = inverse.pin_memory().to(self.device, non_blocking=True)
        rows.record_stream(forward_stream)
        inverse.record_stream(forward_stream)
        self._prefetch_states.append(PrefetchState(rows, inverse, unique))

    def forward(self, lengths: torch.Tensor) -> torch.Tensor:
        state = self._prefetch_states.popleft()
        looked_up = state.rows.index_select(0, state.inverse)
        segments = torch.repeat_interleave(
            torch.arange(lengths.numel(), device=self.device), lengths, output_size=looked_up.shape[0]
        )
        pooled = torch.zeros(lengths.numel(), looked_up.shape[1], device=self.device)
        return pooled.index_add(0, segments, looked_up)


class JaggedPrefetchPipeline:
    """Prefetches the embeddings of the next batch beside the current forward."""

    def __init__(self, embedding: BatchedDynamicEmbeddingTables, dense: nn.Module, lr: float):
        self.embedding = embedding
        self.dense = dense
        self.optimizer = torch.optim.SGD(dense.parameters(), lr=lr)
        self.prefetch_stream = torch.cuda.Stream()
        self.default_stream = torch.cuda.current_stream()

    def _prefetch(self, batch: Optional[Batch]) -> None:
        if batch is None:
            return
        with torch.cuda.stream(self.prefetch_stream):
            self.embedding.prefetch(batch.keys, self.default_stream)

    def run(self, it: Iterator[Batch]) -> Dict[str, float]:
        current = next(it, None)
        self._prefetch(current)
        losses = []
        while current is not None:
            upcoming = next(it, None)
            self._prefetch(upcoming)
            lengths = current.lengths.pin_memory().cuda(non_blocking=True)
            labels = current.labels.pin_memory().cuda(non_blocking=True)
            logits = self.dense(self.embedding(lengths)).squeeze(-1)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
            current = upcoming
        return {"loss": torch.stack(losses).mean().item()}


def make_batches(n: int, size: int = 8192, rows: int = 2_000_000) -> Iterator[Batch]:
    for _ in range(n):
        lengths = torch.randint(1, 30, (size,))
        yield Batch(torch.randint(0, rows, (int(lengths.sum()),)), lengths, torch.rand(size).round())


def main() -> Dict[str, float]:
    device = torch.device("cuda")
    dense = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 1)).to(device)
    tables = BatchedDynamicEmbeddingTables(2_000_000, 128, device)
    return JaggedPrefetchPipeline(tables, dense, 0.05).run(make_batches(100))
