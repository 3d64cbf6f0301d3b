"""Pool of pinned buffers recycled once the copies that read them have finished."""
from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator

import torch


class PinnedPool:
    def __init__(self, numel: int, device: torch.device, dtype: torch.dtype = torch.float32, limit: int = 8):
        self.numel = numel
        self.device = device
        self.dtype = dtype
        self.limit = limit
        self._made = 0
        self._retired: deque[tuple[torch.Tensor, torch.cuda.Event]] = deque()
        self._lock = threading.Condition()

    def _take(self) -> torch.Tensor:
        with self._lock:
            for _ in range(len(self._retired)):
                buf, event = self._retired.popleft()
                if event.query():
                    return buf
                self._retired.append((buf, event))
            if self._made < self.limit:
                self._made += 1
                return torch.empty(self.numel, dtype=self.dtype, pin_memory=True)
            while not self._retired:
                self._lock.wait()
            buf, event = self._retired.popleft()
        event.synchronize()
        return buf

    @contextlib.contextmanager
    def lease(self) -> Iterator[torch.Tensor]:
        buf = self._take()
        try:
            yield buf
        finally:
            event = torch.cuda.Event()
            event.record(torch.cuda.current_stream(self.device))
            with self._lock:
                self._retired.append((buf, event))
                self._lock.notify()


class SparseUpdater:
    """Applies host-side deltas to a device table."""

    def __init__(self, rows: int, width: int, device: torch.device, batch_rows: int = 256):
        self.table = torch.zeros(rows, width, device=device)
        self.width = width
        self.batch_rows = batch_rows
        self._deltas = PinnedPool(batch_rows * width, device)
        self._indices = PinnedPool(batch_rows, device, dtype=torch.int64)

    def apply(self, indices: torch.Tensor, deltas: torch.Tensor) -> None:
        for start in range(0, indices.numel(), self.batch_rows):
            idx = indices[start : start + self.batch_rows]
            val = deltas[start : start + self.batch_rows]
            count = idx.numel()
            with self._indices.lease() as ibuf, self._deltas.lease() as dbuf:
                ibuf[:count].copy_(idx)
                dbuf[: count * self.width].copy_(val.reshape(-1))
                dev_idx = ibuf[:count].to(self.table.device, non_blocking=True)
                dev_val = dbuf[: count * self.width].to(self.table.device, non_blocking=True)
                self.table.index_add_(0, dev_idx, dev_val.view(count, self.width))


def main() -> None:
    torch.cuda.set_device(0)
    updater = SparseUpdater(rows=10_000, width=64, device=torch.device("cuda", 0))
    gen = torch.Generator().manual_seed(1)
    expected = torch.zeros(10_000, 64)
    idx = torch.empty(3000, dtype=torch.int64)
    val = torch.empty(3000, 64)
    for _ in range(25):
        idx.random_(0, 10_000, generator=gen)
        val.normal_(generator=gen)
        updater.apply(idx, val)
        expected.index_add_(0, idx, val)
    print((updater.table.cpu() - expected).abs().max().item())


if __name__ == "__main__":
    main()
