from contextlib import contextmanager

import cupy as cp
import cupyx
import numpy as np


class FrameUploader:
    """Moves camera frames to the device through a small set of slots."""

    def __init__(self, shape, slots=3):
        self.slots = slots
        self.copy_stream = cp.cuda.Stream(non_blocking=True)
        self.host = [cupyx.empty_pinned(shape, np.float32) for _ in range(slots)]
        self.dev = [cp.empty(shape, cp.float32) for _ in range(slots)]
        self.uploaded = {}
        self.consumed = {}
        self.turn = 0

    def push(self, frame):
        slot = self.turn % self.slots
        self.turn += 1
        previous = self.uploaded.get(slot)
        if previous is not None:
            previous.synchronize()
        np.copyto(self.host[slot], frame)
        used = self.consumed.pop(slot, None)
        if used is not None:
            self.copy_stream.wait_event(used)
        self.dev[slot].set(self.host[slot], stream=self.copy_stream)
        self.uploaded[slot] = self.copy_stream.record()
        return slot

    @contextmanager
    def frame(self, slot, stream):
        stream.wait_event(self.uploaded[slot])
        with stream:
            try:
                yield self.dev[slot]
            finally:
                self.consumed[slot] = stream.record()


def mean_image(frames, shape):
    uploader = FrameUploader(shape)
    compute = cp.cuda.Stream(non_blocking=True)
    with compute:
        total = cp.zeros(shape, cp.float32)
    count = 0
    for frame in frames:
        slot = uploader.push(frame)
        with uploader.frame(slot, compute) as image:
            total += image * image
        count += 1
    with compute:
        total /= max(count, 1)
        return total.get()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    images = (rng.random((480, 640), dtype=np.float32) for _ in range(32))
    print(mean_image(images, (480, 640)).mean())
