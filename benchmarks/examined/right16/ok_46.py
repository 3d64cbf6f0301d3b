"""Rolling threshold of sensor frames with PyCUDA."""
from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pycuda.autoprimaryctx  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_MODULE = SourceModule(
    """
__global__ void threshold(const float *frame, float *mean, unsigned char *mask, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float m = mean[i] + rate * (frame[i] - mean[i]);
        mask[i] = fabsf(frame[i] - m) > 0.5f;
        mean[i] = m;
    }
}
"""
)


class _Slot:
    def __init__(self, count: int):
        self.host_frame = drv.pagelocked_empty(count, np.float32)
        self.host_mask = drv.pagelocked_empty(count, np.uint8)
        self.frame = drv.mem_alloc(4 * count)
        self.mask = drv.mem_alloc(count)
        self.uploaded = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.computed = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.downloaded = drv.Event(drv.event_flags.DISABLE_TIMING)


class RollingThreshold:
    def __init__(self, count: int, rate: float = 0.1):
        self.count = count
        self.rate = np.float32(rate)
        self._kernel = _MODULE.get_function("threshold")
        self._kernel.prepare("PPPfi")
        self._transfer = drv.Stream()
        self._compute = drv.Stream()
        self._mean = drv.mem_alloc(4 * count)
        drv.memset_d32_async(self._mean, 0, count, self._compute)

    def _submit(self, slot: _Slot, frame: np.ndarray) -> None:
        if frame.shape != (self.count,):
            raise ValueError("frame has the wrong length")
        slot.host_frame[:] = frame
        drv.memcpy_htod_async(slot.frame, slot.host_frame, self._transfer)
        slot.uploaded.record(self._transfer)
        self._compute.wait_for_event(slot.uploaded)
        grid = ((self.count + 255) // 256, 1)
        self._kernel.prepared_async_call(
            grid, (256, 1, 1), self._compute, slot.frame, self._mean, slot.mask, self.rate, self.count
        )
        slot.computed.record(self._compute)

    def _fetch(self, slot: _Slot) -> np.ndarray:
        self._transfer.wait_for_event(slot.computed)
        drv.memcpy_dtoh_async(slot.host_mask, slot.mask, self._transfer)
        slot.downloaded.record(self._transfer)
        slot.downloaded.synchronize()
        return slot.host_mask.astype(bool)

    def process(self, frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        waiting: list[_Slot] = []
        spare = [_Slot(self.count) for _ in range(2)]
        try:
            for frame in frames:
                slot = spare.pop()
                self._submit(slot, frame)
                waiting.append(slot)
                if not spare:
                    oldest = waiting.pop(0)
                    mask = self._fetch(oldest)
                    spare.append(oldest)
                    yield mask
            while waiting:
                yield self._fetch(waiting.pop(0))
        finally:
            self._transfer.synchronize()
            self._compute.synchronize()


def main() -> None:
    rng = np.random.default_rng(0)
    detector = RollingThreshold(100_000)

    def frames(count: int) -> Iterator[np.ndarray]:
        buffer = np.empty(100_000, dtype=np.float32)
        for _ in range(count):
            buffer[:] = rng.normal(0.0, 0.4, size=buffer.size)
            yield buffer

    print([int(mask.sum()) for mask in detector.process(frames(12))])
    for mask in detector.process(frames(12)):
        if mask.mean() < 0.3:
            break
    print(int(mask.sum()))
    print([int(mask.sum()) for mask in detector.process(frames(1))])


if __name__ == "__main__":
    main()
