import ctypes

import numpy as np

from .cudart import D2D, D2H, H2D, check, rt, stream


class FrameSource:
    def __init__(self, ring, shape, seed=1):
        self.ring = ring
        self.shape = shape
        self.rng = np.random.default_rng(seed)
        self.lane = stream()

    def _view(self, slot):
        raw = (ctypes.c_uint8 * slot.nbytes).from_address(int(slot.host))
        return np.ctypeslib.as_array(raw).reshape(self.shape)

    def push(self):
        with self.ring.produce(self.lane) as slot:
            self._view(slot)[:] = self.rng.integers(0, 256, self.shape, np.uint8)
            check(rt.cudaMemcpyAsync(slot.ptr, slot.host, slot.nbytes, H2D, self.lane))


class StripCutter:
    """Crops the middle rows of each frame into one long strip on the device."""

    def __init__(self, ring, shape, limit):
        self.ring = ring
        self.h, self.w = shape
        self.rows = self.h // 4
        self.limit = limit
        self.lane = stream()
        self.strip = check(rt.cudaMalloc(self.rows * self.w * limit))
        self.count = 0

    def pull(self):
        part = self.rows * self.w
        with self.ring.consume(self.lane) as slot:
            source = int(slot.ptr) + (self.h // 2 - self.rows // 2) * self.w
            check(rt.cudaMemcpyAsync(int(self.strip) + self.count * part, source,
                                     part, D2D, self.lane))
        self.count += 1

    def result(self):
        out = np.empty((self.count * self.rows, self.w), np.uint8)
        check(rt.cudaStreamSynchronize(self.lane))
        check(rt.cudaMemcpy(out.ctypes.data, self.strip, out.nbytes, D2H))
        return out
