from __future__ import annotations

import numpy as np
from cuda.core.experimental import (
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

CODE = r"""
extern "C" __global__ void mandel(unsigned short* out, int w, int h, float zoom) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= w * h) return;
    float cx = (i % w - w * 0.7f) * zoom, cy = (i / w - h * 0.5f) * zoom, x = 0, y = 0;
    unsigned short n = 0;
    while (n < 500 && x * x + y * y < 4.0f) { float t = x * x - y * y + cx; y = 2 * x * y + cy; x = t; ++n; }
    out[i] = n;
}
"""


class FrameSlot:
    def __init__(self, nbytes: int, shape: tuple[int, int], pinned: LegacyPinnedMemoryResource) -> None:
        self.host = pinned.allocate(nbytes)
        self.view = np.from_dlpack(self.host).view(np.uint16).reshape(shape)
        self.landed = None


class Zoomer:
    def __init__(self, w: int, h: int, slots: int = 2) -> None:
        self.dev = Device()
        self.dev.set_current()
        self.w, self.h, self.nbytes = w, h, 2 * w * h
        self.render = self.dev.create_stream()
        self.copy = self.dev.create_stream()
        program = Program(CODE, code_type="c++", options=ProgramOptions(arch=f"sm_{self.dev.arch}"))
        self.kernel = program.compile("cubin").get_kernel("mandel")
        pinned = LegacyPinnedMemoryResource()
        self.slots = [FrameSlot(self.nbytes, (h, w), pinned) for _ in range(slots)]

    def _draw(self, slot: FrameSlot, zoom: float) -> None:
        frame = self.dev.allocate(self.nbytes, stream=self.render)
        config = LaunchConfig(grid=(self.w * self.h + 255) // 256, block=256)
        launch(self.render, config, self.kernel, frame, np.int32(self.w), np.int32(self.h), np.float32(zoom))
        self.copy.wait(self.render.record())
        frame.copy_to(slot.host, stream=self.copy)
        slot.landed = self.copy.record()
        frame.close(self.copy)

    def frames(self, zooms):
        waiting: list[FrameSlot] = []
        for k, zoom in enumerate(zooms):
            if len(waiting) == len(self.slots):
                yield self._take(waiting)
            slot = self.slots[k % len(self.slots)]
            self._draw(slot, zoom)
            waiting.append(slot)
        while waiting:
            yield self._take(waiting)

    def _take(self, waiting: list[FrameSlot]) -> np.ndarray:
        slot = waiting.pop(0)
        slot.landed.sync()
        return slot.view.copy()


def main() -> None:
    zoomer = Zoomer(640, 480)
    print([int(f.sum()) for f in zoomer.frames([0.005 * 0.9**k for k in range(12)])][:3])


if __name__ == "__main__":
    main()
