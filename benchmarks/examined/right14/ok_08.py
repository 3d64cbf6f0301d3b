"""Pinned staging pool for ragged host-to-device uploads."""
from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import Sequence

import numpy as np
import torch


def _round(nbytes: int) -> int:
    size = 4096
    while size < nbytes:
        size <<= 1
    return size


class PinnedPool:
    def __init__(self, limit: int = 64 << 20) -> None:
        self._free: dict[int, deque] = defaultdict(deque)
        self._lock = threading.Lock()
        self._limit = limit
        self._owned = 0

    def take(self, nbytes: int) -> torch.Tensor:
        size = _round(nbytes)
        event = None
        with self._lock:
            queue = self._free[size]
            if queue and (self._owned + size > self._limit or queue[0][1].query()):
                buffer, event = queue.popleft()
            else:
                buffer = None
                self._owned += size
        if buffer is None:
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)
        event.synchronize()
        return buffer

    def give(self, buffer: torch.Tensor, event: torch.cuda.Event) -> None:
        with self._lock:
            self._free[buffer.numel()].append((buffer, event))


class Uploader:
    def __init__(self, device: torch.device, pool: PinnedPool | None = None) -> None:
        self.device = device
        self.pool = pool or PinnedPool()

    def upload(self, array: np.ndarray) -> torch.Tensor:
        array = np.ascontiguousarray(array)
        source = torch.from_numpy(array).reshape(-1)
        stream = torch.cuda.current_stream(self.device)
        out = torch.empty(source.numel(), dtype=source.dtype, device=self.device)
        if source.numel() == 0:
            return out.view(array.shape)
        buffer = self.pool.take(array.nbytes)
        staged = buffer[: array.nbytes].view(source.dtype)
        staged.copy_(source)
        out.copy_(staged, non_blocking=True)
        self.pool.give(buffer, stream.record_event())
        return out.view(array.shape)

    def pack(self, rows: Sequence[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = np.asarray([len(r) for r in rows], dtype=np.int64)
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        flat = np.concatenate(rows) if rows else np.zeros(0, dtype=np.float32)
        return self.upload(flat), self.upload(offsets)


def segment_sums(uploader: Uploader, groups: Sequence[Sequence[np.ndarray]]) -> list[list[float]]:
    out = []
    for rows in groups:
        values, offsets = uploader.pack(rows)
        sums = torch.segment_reduce(values, "sum", offsets=offsets)
        out.append(sums)
    return [s.tolist() for s in out]
