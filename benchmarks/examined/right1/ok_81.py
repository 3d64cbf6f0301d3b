"""Motion map from frames on loan from a small pool."""
import weakref
from collections import deque

import cupy as cp
import numpy as np


class Lease:
    __slots__ = ("array", "__weakref__")

    def __init__(self, array):
        self.array = array


class FramePool:
    """Frames go back to the pool when their lease is dropped."""

    def __init__(self, shape, count, writer, reader):
        self.writer = writer
        self.reader = reader
        self._free = deque(
            (cp.empty(shape, cp.float32), cp.cuda.Event(disable_timing=True))
            for _ in range(count)
        )

    def take(self):
        array, event = self._free.popleft()
        self.writer.wait_event(event)
        lease = Lease(array)
        weakref.finalize(lease, self._give_back, array, event).atexit = False
        return lease

    def _give_back(self, array, event):
        event.record(self.reader)
        self._free.append((array, event))


class MotionMap:
    def __init__(self, shape):
        self.writer = cp.cuda.Stream(non_blocking=True)
        self.reader = cp.cuda.Stream(non_blocking=True)
        self.pool = FramePool(shape, 3, self.writer, self.reader)
        self.previous = None
        with self.reader:
            self.motion = cp.zeros(shape, cp.float32)

    def _compare(self, lease):
        with self.reader:
            change = cp.abs(lease.array - self.previous.array)
            cp.maximum(0.9 * self.motion, change, out=self.motion)

    def push(self, frame, blurred=False):
        lease = self.pool.take()
        lease.array.set(frame, stream=self.writer)
        if blurred:
            return False
        self.reader.wait_event(self.writer.record())
        if self.previous is not None:
            self._compare(lease)
        self.previous = lease
        return True

    def read(self):
        with self.reader:
            return cp.asnumpy(self.motion)


def main(count=60, shape=(480, 640)):
    rng = np.random.default_rng(41)
    tracker = MotionMap(shape)
    kept = 0
    for k in range(count):
        kept += tracker.push(rng.random(shape, dtype=np.float32), blurred=k % 7 == 6)
    return kept, tracker.read().mean()


if __name__ == "__main__":
    print(main())
