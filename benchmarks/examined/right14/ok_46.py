"""Streams sensor blocks through a PyCUDA filter with separate copy and compute streams."""
from __future__ import annotations

from typing import Iterable, Iterator

import numpy as np
import pycuda.autoinit
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_module = SourceModule(
    """
__global__ void notch(const float *x, float *y, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float x1 = 0.f, x2 = 0.f, y1 = 0.f, y2 = 0.f;
    for (int r = 0; r < rows; ++r) {
        float v = x[r * cols + c];
        float w = 0.95f * v - 1.5f * x1 + 0.95f * x2 + 1.5f * y1 - 0.9f * y2;
        x2 = x1; x1 = v; y2 = y1; y1 = w;
        y[r * cols + c] = w;
    }
}
"""
)
_notch = _module.get_function("notch")


class Slot:
    def __init__(self, shape: tuple[int, int]) -> None:
        nbytes = shape[0] * shape[1] * 4
        self.source = drv.pagelocked_empty(shape, np.float32)
        self.result = drv.pagelocked_empty(shape, np.float32)
        self.d_in = drv.mem_alloc(nbytes)
        self.d_out = drv.mem_alloc(nbytes)
        self.loaded = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.filtered = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.stored = drv.Event(drv.event_flags.DISABLE_TIMING)


class NotchPipeline:
    def __init__(self, rows: int, cols: int, depth: int = 2) -> None:
        self.rows, self.cols = rows, cols
        self.upload = drv.Stream()
        self.compute = drv.Stream()
        self.download = drv.Stream()
        self.slots = [Slot((rows, cols)) for _ in range(depth)]

    def _issue(self, slot: Slot, block: np.ndarray) -> None:
        slot.stored.synchronize()
        slot.source[...] = block
        drv.memcpy_htod_async(slot.d_in, slot.source, self.upload)
        slot.loaded.record(self.upload)
        self.compute.wait_for_event(slot.loaded)
        _notch(
            slot.d_in, slot.d_out, np.int32(self.rows), np.int32(self.cols),
            block=(128, 1, 1), grid=(-(-self.cols // 128), 1), stream=self.compute,
        )
        slot.filtered.record(self.compute)
        self.download.wait_for_event(slot.filtered)
        drv.memcpy_dtoh_async(slot.result, slot.d_out, self.download)
        slot.stored.record(self.download)

    def run(self, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        waiting: list[Slot] = []
        turn = 0
        try:
            for block in blocks:
                if len(waiting) == len(self.slots):
                    slot = waiting.pop(0)
                    slot.stored.synchronize()
                    yield slot.result.copy()
                slot = self.slots[turn]
                turn = (turn + 1) % len(self.slots)
                self._issue(slot, block)
                waiting.append(slot)
            while waiting:
                slot = waiting.pop(0)
                slot.stored.synchronize()
                yield slot.result.copy()
        finally:
            for stream in (self.upload, self.compute, self.download):
                stream.synchronize()


def main() -> None:
    rng = np.random.default_rng(0)
    pipeline = NotchPipeline(256, 4096)
    blocks = (rng.standard_normal((256, 4096)).astype(np.float32) for _ in range(12))
    for index, block in enumerate(pipeline.run(blocks)):
        print(index, float(block.std()))


if __name__ == "__main__":
    main()
