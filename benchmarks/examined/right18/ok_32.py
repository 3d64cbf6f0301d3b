"""Streams chunks of a memory-mapped file through the GPU (CuPy)."""
import cupy as cp
import cupyx
import numpy as np


class Slot:
    def __init__(self, size):
        self.host = cupyx.empty_pinned((size,), dtype=np.float32)
        self.device = cp.empty((size,), dtype=cp.float32)
        self.uploaded = cp.cuda.Event(disable_timing=True)
        self.consumed = cp.cuda.Event(disable_timing=True)


class ChunkedHistogram:
    def __init__(self, bins, low, high, chunk=1 << 22):
        self.bins, self.low, self.high = bins, low, high
        self.chunk = chunk
        self.slots = [Slot(chunk) for _ in range(2)]
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.work = cp.cuda.Stream(non_blocking=True)
        allocated = cp.cuda.get_current_stream().record()
        self.copy.wait_event(allocated)
        self.work.wait_event(allocated)
        with self.work:
            self.counts = cp.zeros(bins, dtype=cp.int64)

    def _upload(self, slot, piece):
        slot.uploaded.synchronize()
        view = slot.host[: piece.size]
        np.copyto(view, piece)
        self.copy.wait_event(slot.consumed)
        slot.device[: piece.size].set(view, stream=self.copy)
        slot.uploaded.record(self.copy)

    def _consume(self, slot, size):
        self.work.wait_event(slot.uploaded)
        with self.work:
            x = slot.device[:size]
            scaled = (x - self.low) * (self.bins / (self.high - self.low))
            index = cp.clip(scaled.astype(cp.int64), 0, self.bins - 1)
            self.counts += cp.bincount(index, minlength=self.bins)
        slot.consumed.record(self.work)

    def add(self, array):
        flat = array.reshape(-1)
        for number, start in enumerate(range(0, flat.size, self.chunk)):
            piece = flat[start : start + self.chunk]
            slot = self.slots[number % 2]
            self._upload(slot, piece)
            self._consume(slot, piece.size)

    def result(self):
        with self.work:
            counts = self.counts.copy()
        host = counts.get(stream=self.work)
        self.work.synchronize()
        return host

    def close(self):
        self.copy.synchronize()
        self.work.synchronize()


def histogram_file(path, bins=256, low=0.0, high=1.0):
    data = np.memmap(path, dtype=np.float32, mode="r")
    histogram = ChunkedHistogram(bins, low, high)
    try:
        histogram.add(data)
        return histogram.result()
    finally:
        histogram.close()
