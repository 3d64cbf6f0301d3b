"""Frame export: upload, composite, convert to NV12 and hand to the encoder."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable

import numpy as np
import torch


@dataclass
class Overlay:
    x: int
    y: int
    rgba: torch.Tensor


class CpuFrames:
    """Decoded frames land here; one page-locked frame is kept and rewritten."""

    def __init__(self, height: int, width: int) -> None:
        self._pixels = torch.empty((height, width, 4), dtype=torch.uint8, pin_memory=True)

    def load(self, frame: np.ndarray) -> torch.Tensor:
        if frame.shape != tuple(self._pixels.shape):
            self._pixels = torch.empty(frame.shape, dtype=torch.uint8, pin_memory=True)
        self._pixels.copy_(torch.from_numpy(frame))
        return self._pixels


class Compositor:
    def __init__(self, height: int, width: int, overlays: list[Overlay]) -> None:
        self.height, self.width = height, width
        self.overlays = overlays
        self.stream = torch.cuda.Stream()
        self.canvas = torch.empty((height, width, 4), dtype=torch.uint8, device="cuda")
        self.nv12 = torch.empty((height * 3 // 2, width), dtype=torch.uint8, device="cuda")
        self.nv12_host = torch.empty((height * 3 // 2, width), dtype=torch.uint8, pin_memory=True)
        self.coeffs = torch.tensor([0.257, 0.504, 0.098], device="cuda")
        self.stream.wait_stream(torch.cuda.current_stream())

    def draw(self, pixels: torch.Tensor) -> None:
        with torch.cuda.stream(self.stream):
            self.canvas.copy_(pixels, non_blocking=True)
            for ov in self.overlays:
                h, w = ov.rgba.shape[:2]
                region = self.canvas[ov.y : ov.y + h, ov.x : ov.x + w]
                alpha = ov.rgba[..., 3:].float() / 255.0
                mixed = ov.rgba.float() * alpha + region.float() * (1 - alpha)
                region.copy_(mixed.to(torch.uint8))

    def sync(self) -> None:
        self.stream.synchronize()

    def rgb_to_nv12(self) -> np.ndarray:
        with torch.cuda.stream(self.stream):
            rgb = self.canvas[..., :3].float()
            luma = (rgb * self.coeffs).sum(-1) + 16.0
            self.nv12[: self.height].copy_(luma.to(torch.uint8))
            sub = rgb[::2, ::2]
            cb = (sub[..., 2] - sub[..., 1]) * 0.5 + 128.0
            cr = (sub[..., 0] - sub[..., 1]) * 0.5 + 128.0
            chroma = torch.stack((cb, cr), dim=-1).reshape(self.height // 2, self.width)
            self.nv12[self.height :].copy_(chroma.to(torch.uint8))
            self.nv12_host.copy_(self.nv12, non_blocking=True)
        self.sync()
        return self.nv12_host.numpy()


def export(reader: Iterable[np.ndarray], encoder, height: int, width: int) -> int:
    logo = torch.randint(0, 255, (64, 64, 4), dtype=torch.uint8, device="cuda")
    frames = CpuFrames(height, width)
    compositor = Compositor(height, width, [Overlay(16, 16, logo)])
    count = 0
    for frame in reader:
        compositor.draw(frames.load(frame))
        encoder.write(compositor.rgb_to_nv12().tobytes())
        count += 1
    return count


if __name__ == "__main__":
    source = (np.random.randint(0, 255, (1080, 1920, 4), dtype=np.uint8) for _ in range(60))
    with open("out.nv12", "wb") as sink:
        print(export(source, sink, 1080, 1920))
