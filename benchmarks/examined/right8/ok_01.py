"""Feed camera frames through a pinned upload ring and accumulate a mean image."""
from contextlib import contextmanager

import cupy as cp
import cupyx
import numpy as np


class UploadRing:
    def __init__(self, depth, shape, dtype=np.float32):
        self.depth = depth
        self._host = [cupyx.empty_pinned(shape, dtype) for _ in range(depth)]
        self._dev = [cp.empty(shape, dtype) for _ in range(depth)]
        self._uploaded = {}
        self._released = {}
        self._count = 0
        self.copy_stream = cp.cuda.Stream(non_blocking=True)

    def push(self, frame):
        slot = self._count % self.depth
        self._count += 1
        if slot in self._uploaded:
            self._uploaded[slot].synchronize()
        np.copyto(self._host[slot], frame)
        released = self._released.pop(slot, None)
        if released is not None:
            self.copy_stream.wait_event(released)
        self._dev[slot].set(self._host[slot], stream=self.copy_stream)
        self._uploaded[slot] = self.copy_stream.record()
        return slot

    @contextmanager
    def checkout(self, slot, stream):
        stream.wait_event(self._uploaded[slot])
        try:
            yield self._dev[slot]
        finally:
            self._released[slot] = stream.record()


def mean_image(frames, shape):
    ring = UploadRing(3, shape)
    compute = cp.cuda.Stream(non_blocking=True)
    with compute:
        acc = cp.zeros(shape, cp.float32)
    pending = []
    n = 0
    for frame in frames:
        pending.append(ring.push(frame))
        n += 1
        if len(pending) < 2:
            continue
        with ring.checkout(pending.pop(0), compute) as img, compute:
            acc += img
    for slot in pending:
        with ring.checkout(slot, compute) as img, compute:
            acc += img
    with compute:
        acc /= n
        out = acc.get()
    return out


if __name__ == "__main__":
    src = (np.full((480, 640), i, np.float32) for i in range(20))
    print(mean_image(src, (480, 640)).mean())
