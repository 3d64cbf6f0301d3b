"""Upload camera frames to the GPU and keep a running background model."""
import itertools
from dataclasses import dataclass, field

import cupy as cp
import cupyx
import numpy as np


def _event():
    return cp.cuda.Event(disable_timing=True)


@dataclass
class Slot:
    host: np.ndarray
    dev: cp.ndarray
    uploaded: cp.cuda.Event = field(default_factory=_event)
    consumed: cp.cuda.Event = field(default_factory=_event)


class FrameUploader:
    def __init__(self, shape, depth=3):
        self._copy = cp.cuda.Stream(non_blocking=True)
        self._slots = [
            Slot(cupyx.empty_pinned(shape, np.float32), cp.empty(shape, cp.float32))
            for _ in range(depth)
        ]
        self._head = itertools.count()

    def push(self, frame):
        slot = self._slots[next(self._head) % len(self._slots)]
        slot.uploaded.synchronize()
        np.copyto(slot.host, frame)
        self._copy.wait_event(slot.consumed)
        slot.dev.set(slot.host, stream=self._copy)
        slot.uploaded.record(self._copy)
        return slot


class BackgroundModel:
    def __init__(self, shape, rate=0.05):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rate = rate
        with self.stream:
            self.mean = cp.zeros(shape, cp.float32)
            self.energy = cp.zeros((), cp.float32)

    def update(self, slot):
        self.stream.wait_event(slot.uploaded)
        with self.stream:
            diff = slot.dev - self.mean
            self.mean += self.rate * diff
            self.energy += (diff * diff).sum()
        slot.consumed.record(self.stream)

    def snapshot(self):
        with self.stream:
            return cp.asnumpy(self.mean), float(self.energy)


def run(frames, shape):
    uploader = FrameUploader(shape)
    model = BackgroundModel(shape)
    pending = None
    for frame in frames:
        slot = uploader.push(frame)
        if pending is not None:
            model.update(pending)
        pending = slot
    if pending is not None:
        model.update(pending)
    return model.snapshot()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    size = (720, 1280)
    mean, energy = run((rng.random(size, dtype=np.float32) for _ in range(60)), size)
    print(mean.mean(), energy)
