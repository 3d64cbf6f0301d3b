"""Feature scoring over host arrays through a small ring of fixed staging slots."""
from dataclasses import dataclass
from typing import Iterable, Iterator

import numpy as np
import torch


@dataclass
class Slot:
    host: torch.Tensor
    dev: torch.Tensor
    ready: torch.cuda.Event
    done: torch.cuda.Event


class RingScorer:
    def __init__(self, weight: torch.Tensor, rows: int, depth: int = 3):
        self.device = weight.device
        self.weight = weight
        self.rows = rows
        self.cols = weight.shape[0]
        self.copy_stream = torch.cuda.Stream(device=self.device)
        self.slots = [self._make_slot() for _ in range(depth)]
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        self.cursor = 0
        self.active = False

    def _make_slot(self) -> Slot:
        dev = torch.empty(self.rows, self.cols, device=self.device)
        dev.record_stream(self.copy_stream)
        host = torch.empty(self.rows, self.cols, pin_memory=True)
        return Slot(host, dev, torch.cuda.Event(), torch.cuda.Event())

    def _stage(self, slot: Slot, array: np.ndarray) -> int:
        n = array.shape[0]
        if n > self.rows or array.shape[1] != self.cols:
            raise ValueError(f"bad chunk shape {array.shape}")
        slot.ready.synchronize()
        slot.host[:n].numpy()[...] = array
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(slot.done)
            slot.dev[:n].copy_(slot.host[:n], non_blocking=True)
            slot.ready.record(self.copy_stream)
        return n

    def _score(self, slot: Slot, n: int) -> torch.Tensor:
        current = torch.cuda.current_stream(self.device)
        current.wait_event(slot.ready)
        slot.dev.record_stream(current)
        try:
            logits = slot.dev[:n] @ self.weight
            return torch.softmax(logits, dim=-1)
        finally:
            slot.done.record(current)

    @torch.no_grad()
    def run(self, chunks: Iterable[np.ndarray]) -> Iterator[torch.Tensor]:
        if self.active:
            raise RuntimeError("a previous run() is still open")
        self.active = True
        pending = []
        try:
            for array in chunks:
                slot = self.slots[self.cursor % len(self.slots)]
                self.cursor += 1
                pending.append((slot, self._stage(slot, array)))
                if len(pending) == len(self.slots):
                    yield self._score(*pending.pop(0))
            while pending:
                yield self._score(*pending.pop(0))
        finally:
            self.active = False


def score_file(path: str, weight: torch.Tensor, rows: int = 4096) -> np.ndarray:
    table = np.load(path, mmap_mode="r")
    scorer = RingScorer(weight, rows)
    chunks = (table[i : i + rows] for i in range(0, len(table), rows))
    parts = [p.amax(dim=-1) for p in scorer.run(chunks)]
    if not parts:
        return np.empty((0,), dtype=np.float32)
    return torch.cat(parts).cpu().numpy()
