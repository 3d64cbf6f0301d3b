"""Live preview of a simulation with cuda.core streams and a ring of slots."""
from dataclasses import dataclass
from typing import List, Optional

import numpy as np
from cuda.core import (
    Buffer,
    Device,
    Event,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

SRC = r"""
extern "C" __global__ void render(float *out, size_t n, float t)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = i * 1e-3f;
    for (int k = 0; k < 64; ++k) x = __sinf(x + t) * 1.01f;
    out[i] = x;
}
"""


@dataclass
class Slot:
    device: Buffer
    host: Buffer
    rendered: Optional[Event] = None
    copied: Optional[Event] = None


class SlotRing:
    def __init__(self, dev: Device, stream, nbytes: int, count: int):
        pinned = LegacyPinnedMemoryResource()
        self.slots: List[Slot] = [
            Slot(dev.allocate(nbytes, stream=stream), pinned.allocate(nbytes))
            for _ in range(count)
        ]
        stream.sync()
        self._next = 0

    def acquire(self) -> Slot:
        slot = self.slots[self._next]
        self._next = (self._next + 1) % len(self.slots)
        if slot.rendered is not None:
            slot.rendered.sync()
        return slot

    def close(self, stream):
        for slot in self.slots:
            slot.device.close(stream)
            slot.host.close(stream)


class Renderer:
    def __init__(self, dev: Device, n: int, slots: int = 2):
        self.dev = dev
        self.n = n
        self.compute = dev.create_stream()
        self.io = dev.create_stream()
        options = ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")
        program = Program(SRC, code_type="c++", options=options)
        self.kernel = program.compile("cubin").get_kernel("render")
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.ring = SlotRing(dev, self.compute, 4 * n, slots)

    def frame(self, t: float) -> Slot:
        slot = self.ring.acquire()
        launch(
            self.compute,
            self.config,
            self.kernel,
            slot.device,
            np.uint64(self.n),
            np.float32(t),
        )
        slot.rendered = self.compute.record()
        self.io.wait(slot.rendered)
        slot.host.copy_from(slot.device, stream=self.io)
        slot.copied = self.io.record()
        return slot

    def close(self):
        self.io.sync()
        self.ring.close(self.io)
        self.io.sync()


def preview(slot: Slot) -> float:
    slot.copied.sync()
    image = np.from_dlpack(slot.host).view(np.float32)
    return float(image.std())


def main(frames: int = 600, shown_every: int = 30):
    dev = Device(0)
    dev.set_current()
    renderer = Renderer(dev, 1 << 22)
    contrast = []
    for i in range(frames):
        slot = renderer.frame(0.01 * i)
        if i % shown_every == shown_every - 1:
            contrast.append(preview(slot))
    renderer.close()
    print(contrast[-3:])


if __name__ == "__main__":
    main()
