"""Assembles ragged records in one scratch array and uploads them on a side stream."""
from __future__ import annotations

from typing import Iterable, Iterator

import numpy as np
import torch


class ScratchUploader:
    """Yields device blocks; a block belongs to the caller until the next one is requested."""

    def __init__(self, rows: int, width: int, device: torch.device, ahead: int = 2) -> None:
        self.device = device
        self.rows, self.width = rows, width
        self.scratch = np.zeros((rows, width), dtype=np.float32)
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.blocks = [torch.zeros(rows, width, device=device) for _ in range(ahead)]
        self.filled = [torch.cuda.Event() for _ in range(ahead)]
        self.drained: list[torch.cuda.Event | None] = [None] * ahead

    def _fill(self, index: int, records: list[np.ndarray]) -> None:
        self.scratch.fill(0.0)
        for row, record in enumerate(records):
            n = min(len(record), self.width)
            self.scratch[row, :n] = record[:n]
        drained = self.drained[index]
        if drained is not None:
            self.stream.wait_event(drained)
        with torch.cuda.stream(self.stream):
            self.blocks[index].copy_(torch.from_numpy(self.scratch))
            self.filled[index].record()

    def __call__(self, records: Iterable[np.ndarray]) -> Iterator[torch.Tensor]:
        groups = self._groups(records)
        queue: list[tuple[int, int]] = []
        turn = 0
        for group in groups:
            if len(queue) == len(self.blocks):
                yield from self._hand_out(*queue.pop(0))
            self._fill(turn, group)
            queue.append((turn, len(group)))
            turn = (turn + 1) % len(self.blocks)
        while queue:
            yield from self._hand_out(*queue.pop(0))

    def _hand_out(self, index: int, count: int) -> Iterator[torch.Tensor]:
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(self.filled[index])
        self.blocks[index].record_stream(stream)
        try:
            yield self.blocks[index][:count]
        finally:
            self.drained[index] = stream.record_event()

    def _groups(self, records: Iterable[np.ndarray]) -> Iterator[list[np.ndarray]]:
        group: list[np.ndarray] = []
        for record in records:
            group.append(record)
            if len(group) == self.rows:
                yield group
                group = []
        if group:
            yield group


def spectrum(records: Iterable[np.ndarray], width: int, device: torch.device) -> torch.Tensor:
    uploader = ScratchUploader(64, width, device)
    total = torch.zeros(width // 2 + 1, device=device)
    count = 0
    for block in uploader(records):
        total += torch.fft.rfft(block, dim=-1).abs().sum(0)
        count += block.shape[0]
    return total / max(count, 1)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    data = (rng.standard_normal(rng.integers(100, 5000)).astype(np.float32) for _ in range(1000))
    print(spectrum(data, 4096, torch.device("cuda:0"))[:8])
