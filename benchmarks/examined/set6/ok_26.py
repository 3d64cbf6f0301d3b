from typing import Iterable, Iterator

import cupy as cp
import cupyx
import numpy as np


class _Slot:
    def __init__(self, shape, dtype):
        self.host = cupyx.empty_pinned(shape, dtype=dtype)
        self.device = cp.empty(shape, dtype=dtype)
        self.uploaded = cp.cuda.Event(disable_timing=True)
        self.consumed = cp.cuda.Event(disable_timing=True)


class ChunkUploader:
    """Uploads host chunks through two pinned slots, one chunk ahead of the consumer."""

    def __init__(self, shape, dtype=np.float32):
        self.slots = [_Slot(shape, dtype), _Slot(shape, dtype)]
        self.copy_stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def _upload(self, slot: _Slot, chunk: np.ndarray) -> None:
        slot.uploaded.synchronize()
        slot.host[: len(chunk)] = chunk
        self.copy_stream.wait_event(slot.consumed)
        slot.device.set(slot.host, stream=self.copy_stream)
        slot.uploaded.record(self.copy_stream)

    def stream(self, chunks: Iterable[np.ndarray], compute: cp.cuda.Stream) -> Iterator[cp.ndarray]:
        pending = None
        for i, chunk in enumerate(chunks):
            slot = self.slots[i % 2]
            self._upload(slot, chunk)
            if pending is not None:
                yield from self._hand_over(*pending, compute)
            pending = (slot, len(chunk))
        if pending is not None:
            yield from self._hand_over(*pending, compute)

    def _hand_over(self, slot: _Slot, n: int, compute: cp.cuda.Stream):
        compute.wait_event(slot.uploaded)
        yield slot.device[:n]
        slot.consumed.record(compute)


class RunningMoments:
    def __init__(self, columns: int):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.count = 0
            self.total = cp.zeros(columns, dtype=cp.float64)
            self.squares = cp.zeros(columns, dtype=cp.float64)

    def fit(self, chunks: Iterable[np.ndarray], rows: int) -> "RunningMoments":
        uploader = ChunkUploader((rows, self.total.size))
        for block in uploader.stream(chunks, self.stream):
            with self.stream:
                self.total += block.sum(axis=0, dtype=cp.float64)
                self.squares += (block * block).sum(axis=0, dtype=cp.float64)
            self.count += len(block)
        uploader.copy_stream.synchronize()
        self.stream.synchronize()
        return self

    def std(self) -> np.ndarray:
        with self.stream:
            mean = self.total / self.count
            return cp.asnumpy(cp.sqrt(self.squares / self.count - mean**2))
