import cupy as cp
import cupyx
import numpy as np


class PinnedSlot:
    def __init__(self, shape, dtype):
        self.host = cupyx.empty_pinned(shape, dtype=dtype)
        self.device = cp.empty(shape, dtype=dtype)
        self.uploaded = cp.cuda.Event(disable_timing=True)
        self.consumed = cp.cuda.Event(disable_timing=True)


class UploadRing:
    def __init__(self, shape, dtype, depth=3):
        self.slots = [PinnedSlot(shape, dtype) for _ in range(depth)]
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.next = 0
        cp.cuda.Device().synchronize()

    def push(self, chunk):
        slot = self.slots[self.next]
        self.next = (self.next + 1) % len(self.slots)
        slot.uploaded.synchronize()
        n = len(chunk)
        slot.host[:n] = chunk
        self.stream.wait_event(slot.consumed)
        slot.device[:n].set(slot.host[:n], stream=self.stream)
        slot.uploaded.record(self.stream)
        return slot, n

    def acquire(self, slot, stream):
        stream.wait_event(slot.uploaded)

    def release(self, slot, stream):
        slot.consumed.record(stream)


class RunningHistogram:
    def __init__(self, bins, lo, hi):
        self.bins, self.lo, self.hi = bins, lo, hi
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.counts = cp.zeros(bins, dtype=cp.int64)

    def update(self, ring, slot, n):
        ring.acquire(slot, self.stream)
        with self.stream:
            idx = cp.clip((slot.device[:n] - self.lo) * (self.bins / (self.hi - self.lo)), 0, self.bins - 1)
            self.counts += cp.bincount(idx.astype(cp.int64), minlength=self.bins)[: self.bins]
        ring.release(slot, self.stream)

    def result(self):
        out = self.counts.get(stream=self.stream)
        self.stream.synchronize()
        return out


def histogram_of_file(path, chunk=1 << 22, bins=512, lo=-4.0, hi=4.0):
    data = np.memmap(path, dtype=np.float32, mode="r")
    ring = UploadRing((chunk,), np.float32)
    hist = RunningHistogram(bins, lo, hi)
    for start in range(0, len(data), chunk):
        slot, n = ring.push(data[start : start + chunk])
        hist.update(ring, slot, n)
    return hist.result()
