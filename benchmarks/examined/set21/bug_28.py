"""GPU event pipeline: upload, calibrate and hand events to user kernels."""
from collections import deque

import cupy as cp
import cupyx
import numpy as np

_calib = cp.ElementwiseKernel(
    "uint16 raw, float32 ped, float32 gain", "float32 out",
    "out = ((raw & 0x3fff) - ped) * gain", "jungfrau_calib")


class GpuLease:
    """A user's claim on the arrays of one slot."""

    def __init__(self):
        self._consumer_done = None

    def consumed(self, stream):
        self._consumer_done = stream.record()

    def wait_until_safe_to_reuse(self):
        if self._consumer_done is not None:
            self._consumer_done.synchronize()


class Slot:
    def __init__(self, shape):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.raw_host = cupyx.empty_pinned(shape, dtype=np.uint16)
        self.raw = cp.empty(shape, dtype=cp.uint16)
        self.calib = cp.empty(shape, dtype=cp.float32)


class GpuEvent:
    """One event: its slot, the end of its calibration and the user's lease."""

    def __init__(self, index, slot, done):
        self.index = index
        self.slot = slot
        self.done = done
        self.lease = GpuLease()

    def calib(self, stream):
        stream.wait_event(self.done)
        return self.slot.calib

    def release(self, stream):
        self.lease.consumed(stream)


class GpuStream:
    """Pool of execution slots; events come out in the order they went in."""

    def __init__(self, source, pedestal, gain, pool_depth=2):
        self.source = iter(enumerate(source))
        self.pedestal = cp.asarray(pedestal)
        self.gain = cp.asarray(gain)
        cp.cuda.Device().synchronize()
        self.free = deque(Slot(pedestal.shape) for _ in range(pool_depth))
        self.inflight = deque()

    def _submit(self):
        index, raw = next(self.source, (None, None))
        if index is None:
            return False
        slot = self.free.popleft()
        np.copyto(slot.raw_host, raw)
        slot.raw.set(slot.raw_host, stream=slot.stream)
        with slot.stream:
            _calib(slot.raw, self.pedestal, self.gain, slot.calib)
        self.inflight.append(GpuEvent(index, slot, slot.stream.record()))
        return True

    def _retire(self, event):
        event.done.synchronize()
        event.lease.wait_until_safe_to_reuse()
        self.free.append(event.slot)

    def next_event(self):
        while self.free and self._submit():
            pass
        if not self.inflight:
            return None
        event = self.inflight.popleft()
        self._retire(event)
        self._submit()
        return event

    def events(self):
        while (event := self.next_event()) is not None:
            yield event


def sum_images(source, pedestal, gain, threshold):
    """Accumulate thresholded images with a user kernel on its own stream."""
    user = cp.cuda.Stream(non_blocking=True)
    with user:
        total = cp.zeros(pedestal.shape, dtype=cp.float32)
    for event in GpuStream(source, pedestal, gain).events():
        image = event.calib(user)
        with user:
            total += cp.where(image > threshold, image, cp.float32(0))
        event.release(user)
    return total.get(stream=user)
