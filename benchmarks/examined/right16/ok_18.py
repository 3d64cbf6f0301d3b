"""Three-stage frame pipeline: upload, filter, download, with a ring of slots."""
from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
import torch.nn.functional as F


class _Slot:
    def __init__(self, height: int, width: int, device: torch.device):
        self.host_in = torch.empty(height, width, dtype=torch.uint8, pin_memory=True)
        self.dev_in = torch.empty(height, width, dtype=torch.uint8, device=device)
        self.dev_out = torch.empty(height, width, dtype=torch.uint8, device=device)
        self.host_out = torch.empty(height, width, dtype=torch.uint8, pin_memory=True)
        self.uploaded = torch.cuda.Event()
        self.filtered = torch.cuda.Event()
        self.finished = torch.cuda.Event()
        self.busy = False


class FramePipeline:
    def __init__(self, height: int, width: int, device: torch.device, depth: int = 3):
        self.height, self.width, self.depth = height, width, depth
        self.device = device
        kernel = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0], device=device)
        self.kernel = (torch.outer(kernel, kernel) / 256.0).view(1, 1, 5, 5)
        self._up = torch.cuda.Stream(device=device)
        self._work = torch.cuda.Stream(device=device)
        self._down = torch.cuda.Stream(device=device)
        self._work.wait_stream(torch.cuda.current_stream(device))

    def _enqueue(self, slot: _Slot, frame: np.ndarray) -> None:
        slot.host_in.copy_(torch.from_numpy(frame))
        with torch.cuda.stream(self._up):
            slot.dev_in.copy_(slot.host_in, non_blocking=True)
            slot.uploaded.record()
        with torch.cuda.stream(self._work):
            self._work.wait_event(slot.uploaded)
            image = slot.dev_in.to(torch.float32).view(1, 1, self.height, self.width)
            blurred = F.conv2d(image, self.kernel, padding=2).view(self.height, self.width)
            slot.dev_out.copy_(blurred.round_().clamp_(0, 255))
            slot.filtered.record()
        with torch.cuda.stream(self._down):
            self._down.wait_event(slot.filtered)
            slot.host_out.copy_(slot.dev_out, non_blocking=True)
            slot.finished.record()
        slot.busy = True

    @staticmethod
    def _collect(slot: _Slot) -> np.ndarray:
        slot.finished.synchronize()
        slot.busy = False
        return slot.host_out.numpy().copy()

    def run(self, frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        slots = [_Slot(self.height, self.width, self.device) for _ in range(self.depth)]
        setup = torch.cuda.current_stream(self.device)
        for stream in (self._up, self._work, self._down):
            stream.wait_stream(setup)
        position = 0
        try:
            for frame in frames:
                slot = slots[position % self.depth]
                if slot.busy:
                    yield self._collect(slot)
                self._enqueue(slot, frame)
                position += 1
            for offset in range(self.depth):
                slot = slots[(position + offset) % self.depth]
                if slot.busy:
                    yield self._collect(slot)
        finally:
            for stream in (self._up, self._work, self._down):
                stream.synchronize()


def frames(count: int, height: int, width: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.integers(0, 256, size=(height, width), dtype=np.uint8)


def main() -> None:
    pipeline = FramePipeline(480, 640, torch.device("cuda", 0))
    means = [out.mean() for out in pipeline.run(frames(40, 480, 640))]
    print(len(means), np.mean(means))
    for index, out in enumerate(pipeline.run(frames(10, 480, 640))):
        if index == 2:
            break
    print(out.std())


if __name__ == "__main__":
    main()
