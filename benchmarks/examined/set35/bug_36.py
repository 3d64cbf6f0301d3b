"""Sparse-feature training with a device-transfer stream and ragged batches."""
from dataclasses import dataclass
from typing import Iterator, List, Optional, Tuple

import torch
import torch.nn as nn


@dataclass
class RaggedBatch:
    values: torch.Tensor
    offsets: torch.Tensor
    weights: Optional[torch.Tensor]
    inverse: Optional[Tuple[List[str], torch.Tensor]]
    labels: torch.Tensor

    def pin_memory(self) -> "RaggedBatch":
        return RaggedBatch(
            self.values.pin_memory(),
            self.offsets.pin_memory(),
            None if self.weights is None else self.weights.pin_memory(),
            None if self.inverse is None else (self.inverse[0], self.inverse[1].pin_memory()),
            self.labels.pin_memory(),
        )

    def to(self, device: torch.device) -> "RaggedBatch":
        move = lambda t: t.to(device, non_blocking=True)
        return RaggedBatch(
            move(self.values),
            move(self.offsets),
            None if self.weights is None else move(self.weights),
            None if self.inverse is None else (self.inverse[0], move(self.inverse[1])),
            move(self.labels),
        )

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        self.values.record_stream(stream)
        self.offsets.record_stream(stream)
        if self.weights is not None:
            self.weights.record_stream(stream)
        self.labels.record_stream(stream)


def synthetic(batches: int, users: int, rows: int, table: int) -> Iterator[RaggedBatch]:
    for seed in range(batches):
        g = torch.Generator().manual_seed(seed)
        lengths = torch.randint(1, 20, (users,), generator=g)
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
        total = int(offsets[-1])
        yield RaggedBatch(
            torch.randint(0, table, (total,), generator=g),
            offsets,
            torch.rand(total, generator=g),
            (["user"], torch.randint(0, users, (rows,), generator=g)),
            torch.randint(0, 2, (rows,), generator=g).float(),
        )


class SparseModel(nn.Module):
    def __init__(self, table: int, dim: int = 128):
        super().__init__()
        self.bag = nn.EmbeddingBag(table, dim, mode="sum", include_last_offset=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 1024), nn.ReLU(), nn.Linear(1024, 1))

    def forward(self, batch: RaggedBatch) -> torch.Tensor:
        pooled = self.bag(batch.values, batch.offsets, per_sample_weights=batch.weights)
        if batch.inverse is not None:
            pooled = pooled.index_select(0, batch.inverse[1])
        return self.mlp(pooled).squeeze(-1)


class TrainPipeline:
    def __init__(self, model: SparseModel, users: int, device: torch.device):
        self.model = model.to(device)
        self.device = device
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.memcpy_stream = torch.cuda.Stream(device=device)
        self.next: Optional[RaggedBatch] = None
        self.hits = torch.zeros(users, device=device)

    def _copy_next(self, source: Iterator[RaggedBatch]) -> None:
        host = next(source, None)
        with torch.cuda.stream(self.memcpy_stream):
            self.next = None if host is None else host.pin_memory().to(self.device)

    def progress(self, source: Iterator[RaggedBatch]) -> Optional[torch.Tensor]:
        if self.next is None:
            self._copy_next(source)
        batch = self.next
        if batch is None:
            return None
        current = torch.cuda.current_stream()
        current.wait_stream(self.memcpy_stream)
        batch.record_stream(current)
        self._copy_next(source)
        loss = nn.functional.binary_cross_entropy_with_logits(self.model(batch), batch.labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        if batch.inverse is not None:
            rows = batch.inverse[1]
            self.hits.index_add_(0, rows, self.hits.new_ones(rows.shape[0]))
        return loss.detach()


def main() -> None:
    source = synthetic(200, users=8192, rows=65536, table=1_000_000)
    pipe = TrainPipeline(SparseModel(1_000_000), 8192, torch.device("cuda", 0))
    losses = []
    while (loss := pipe.progress(source)) is not None:
        losses.append(loss)
    print(torch.stack(losses).mean().item())


if __name__ == "__main__":
    main()
