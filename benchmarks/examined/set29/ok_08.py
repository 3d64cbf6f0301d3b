"""Batch finalization for a streaming torch loader: collate, upload on a copy stream, hand over."""
from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from typing import Any, Iterable, Iterator

import numpy as np
import torch
from torch import nn


def _map_tensors(batch: Any, fn):
    if isinstance(batch, torch.Tensor):
        return fn(batch)
    if isinstance(batch, dict):
        return {k: _map_tensors(v, fn) for k, v in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(_map_tensors(v, fn) for v in batch)
    return batch


def _record_stream(batch: Any, stream: torch.cuda.Stream) -> None:
    def record(t: torch.Tensor) -> torch.Tensor:
        t.record_stream(stream)
        return t

    _map_tensors(batch, record)


@dataclass
class Batch:
    data: Any
    copied: torch.cuda.Event | None = None


def collate_numpy(rows: list[dict[str, np.ndarray]]) -> dict[str, torch.Tensor]:
    return {k: torch.from_numpy(np.stack([r[k] for r in rows])) for k in rows[0]}


class FinalizeFn:
    """Runs in the prefetch thread; the consumer's stream is passed in from outside."""

    def __init__(self, device: torch.device, compute_stream: torch.cuda.Stream) -> None:
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self.compute_stream = compute_stream

    def __call__(self, host_batch: dict[str, torch.Tensor]) -> Batch:
        pinned = _map_tensors(host_batch, lambda t: t.pin_memory())
        with torch.cuda.stream(self.copy_stream):
            moved = _map_tensors(pinned, lambda t: t.to(self.device, non_blocking=True))
        _record_stream(moved, self.compute_stream)
        return Batch(moved, self.copy_stream.record_event())


class TorchBatchIterator:
    def __init__(self, blocks: Iterable[list[dict[str, np.ndarray]]], finalize: FinalizeFn,
                 prefetch: int) -> None:
        self.blocks = blocks
        self.finalize = finalize
        self.queue: queue.Queue[Batch | None] = queue.Queue(maxsize=prefetch)
        self.thread = threading.Thread(target=self._fill, daemon=True)

    def _fill(self) -> None:
        torch.cuda.set_device(self.finalize.device)
        for rows in self.blocks:
            self.queue.put(self.finalize(collate_numpy(rows)))
        self.queue.put(None)

    def __iter__(self) -> Iterator[Any]:
        self.thread.start()
        while (batch := self.queue.get()) is not None:
            self.finalize.compute_stream.wait_event(batch.copied)
            yield batch.data


def make_blocks(n: int) -> Iterator[list[dict[str, np.ndarray]]]:
    rng = np.random.default_rng(0)
    for _ in range(n):
        yield [
            {"x": rng.standard_normal(1024, dtype=np.float32), "y": np.float32(rng.random())}
            for _ in range(256)
        ]


def train() -> float:
    device = torch.device("cuda", torch.cuda.current_device())
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    finalize = FinalizeFn(device, torch.cuda.current_stream(device))
    loss = torch.zeros((), device=device)
    for batch in TorchBatchIterator(make_blocks(50), finalize, prefetch=2):
        loss = (model(batch["x"]).squeeze(-1) - batch["y"]).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    print(train())
