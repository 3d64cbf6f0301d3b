"""Ping-pong thresholding of sensor frames with PyCUDA."""
from typing import Iterable, Iterator, List

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

MODULE = SourceModule("""
__global__ void threshold(const float *x, unsigned char *mask, float cut, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) mask[i] = x[i] > cut;
}
""")
THRESHOLD = MODULE.get_function("threshold")


class Half:
    def __init__(self, pixels: int):
        self.frame = drv.pagelocked_empty(pixels, np.float32)
        self.mask = drv.pagelocked_empty(pixels, np.uint8)
        self.d_frame = drv.mem_alloc(pixels * 4)
        self.d_mask = drv.mem_alloc(pixels)
        self.sent = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.computed = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.received = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.active = False


class ThresholdPipe:
    def __init__(self, pixels: int, cut: float):
        self.pixels = pixels
        self.cut = np.float32(cut)
        self.up = drv.Stream()
        self.run = drv.Stream()
        self.down = drv.Stream()
        self.halves: List[Half] = [Half(pixels), Half(pixels)]
        self.turn = 0

    def _submit(self, half: Half, frame: np.ndarray) -> None:
        half.sent.synchronize()
        half.frame[:] = frame.reshape(-1)
        self.up.wait_for_event(half.computed)
        drv.memcpy_htod_async(half.d_frame, half.frame, self.up)
        half.sent.record(self.up)
        self.run.wait_for_event(half.sent)
        self.run.wait_for_event(half.received)
        grid = ((self.pixels + 255) // 256, 1)
        THRESHOLD(half.d_frame, half.d_mask, self.cut, np.int32(self.pixels),
                  block=(256, 1, 1), grid=grid, stream=self.run)
        half.computed.record(self.run)
        self.down.wait_for_event(half.computed)
        drv.memcpy_dtoh_async(half.mask, half.d_mask, self.down)
        half.received.record(self.down)
        half.active = True

    def _collect(self, half: Half) -> np.ndarray:
        half.received.synchronize()
        half.active = False
        return half.mask.astype(bool)

    def masks(self, frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        for half in self.halves:
            if half.active:
                self._collect(half)
        for frame in frames:
            half = self.halves[self.turn]
            self.turn ^= 1
            ready = self._collect(half) if half.active else None
            self._submit(half, frame)
            if ready is not None:
                yield ready
        for k in (self.turn, self.turn ^ 1):
            if self.halves[k].active:
                yield self._collect(self.halves[k])

    def close(self) -> None:
        for stream in (self.up, self.run, self.down):
            stream.synchronize()


def hot_counts(frames: List[np.ndarray], cut: float) -> List[int]:
    if not frames:
        return []
    pipe = ThresholdPipe(frames[0].size, cut)
    try:
        return [int(mask.sum()) for mask in pipe.masks(frames)]
    finally:
        pipe.close()
