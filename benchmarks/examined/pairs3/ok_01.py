"""Stream detector tiles from disk to the GPU and accumulate their power spectra."""
from dataclasses import dataclass, field

import cupy as cp
import cupyx
import numpy as np

TILE = (512, 512)


@dataclass
class UploadSlot:
    host: np.ndarray
    device: cp.ndarray
    uploaded: cp.cuda.Event = field(default_factory=lambda: cp.cuda.Event(disable_timing=True))
    consumed: cp.cuda.Event = field(default_factory=lambda: cp.cuda.Event(disable_timing=True))


class TileUploader:
    def __init__(self, depth=3):
        self.copy_stream = cp.cuda.Stream(non_blocking=True)
        self.compute_stream = cp.cuda.Stream(non_blocking=True)
        self.slots = [
            UploadSlot(cupyx.empty_pinned(TILE, np.float32), cp.empty(TILE, cp.float32))
            for _ in range(depth)
        ]
        with self.compute_stream:
            self.power = cp.zeros(TILE, cp.float32)
        cp.cuda.Device().synchronize()
        self._turn = 0

    def push(self, tile):
        slot = self.slots[self._turn % len(self.slots)]
        self._turn += 1
        slot.uploaded.synchronize()
        np.copyto(slot.host, tile)
        self.copy_stream.wait_event(slot.consumed)
        slot.device.set(slot.host, stream=self.copy_stream)
        slot.uploaded.record(self.copy_stream)
        self._accumulate(slot)

    def _accumulate(self, slot):
        with self.compute_stream as stream:
            stream.wait_event(slot.uploaded)
            spectrum = cp.fft.fft2(slot.device)
            self.power += cp.abs(spectrum) ** 2
            slot.consumed.record(stream)

    def result(self):
        with self.compute_stream:
            return self.power.get()


def main(paths):
    uploader = TileUploader()
    for path in paths:
        for tile in np.load(path, mmap_mode="r"):
            uploader.push(tile)
    np.save("power.npy", uploader.result())


if __name__ == "__main__":
    main([f"run_{i:03d}.npy" for i in range(8)])
