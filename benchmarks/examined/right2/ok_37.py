from collections import deque
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Slot:
    host_in: torch.Tensor
    host_out: torch.Tensor
    dev_in: torch.Tensor
    dev_out: torch.Tensor
    uploaded: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    computed: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    finished: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class StreamingUpscaler:
    """Upload, inference and download on three streams over a ring of slots."""

    def __init__(self, model: nn.Module, in_shape, out_shape, depth: int = 3):
        self.model = model
        self.h2d, self.compute, self.d2h = (torch.cuda.Stream() for _ in range(3))
        self.idle = deque(
            Slot(torch.empty(in_shape, pin_memory=True), torch.empty(out_shape, pin_memory=True),
                 torch.empty(in_shape, device="cuda"), torch.empty(out_shape, device="cuda"))
            for _ in range(depth))
        for stream in (self.h2d, self.compute, self.d2h):
            stream.wait_stream(torch.cuda.current_stream())

    def _launch(self, frame: np.ndarray) -> Slot:
        slot = self.idle.popleft()
        np.copyto(slot.host_in.numpy(), frame)
        with torch.cuda.stream(self.h2d):
            slot.dev_in.copy_(slot.host_in, non_blocking=True)
            slot.uploaded.record()
        with torch.cuda.stream(self.compute):
            slot.uploaded.wait()
            slot.dev_out.copy_(self.model(slot.dev_in))
            slot.computed.record()
        with torch.cuda.stream(self.d2h):
            slot.computed.wait()
            slot.host_out.copy_(slot.dev_out, non_blocking=True)
            slot.finished.record()
        return slot

    def _land(self, slot: Slot) -> np.ndarray:
        slot.finished.synchronize()
        frame = slot.host_out.numpy().copy()
        self.idle.append(slot)
        return frame

    @torch.no_grad()
    def stream(self, frames):
        flying: deque = deque()
        for frame in frames:
            if not self.idle:
                yield self._land(flying.popleft())
            flying.append(self._launch(frame))
        while flying:
            yield self._land(flying.popleft())


def main(frames, sink):
    torch.cuda.set_device(0)
    model = nn.Sequential(nn.Conv2d(3, 48, 3, padding=1), nn.PixelShuffle(4)).cuda().eval()
    upscaler = StreamingUpscaler(model, (1, 3, 270, 480), (1, 3, 1080, 1920))
    for frame in upscaler.stream(frames):
        sink(frame)
