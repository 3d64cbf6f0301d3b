"""GPU frame extraction: NV12 surface -> RGB scratch -> batch slot -> JPEG batch."""
from __future__ import annotations

import os
from typing import Iterable

import torch
import torchvision.io


class Nv12ToRgb:
    def __init__(self, height: int, width: int) -> None:
        self.height, self.width = height, width
        self.matrix = torch.tensor(
            [[1.164, 0.0, 1.596], [1.164, -0.392, -0.813], [1.164, 2.017, 0.0]], device="cuda"
        )

    def __call__(self, nv12: torch.Tensor, out: torch.Tensor) -> None:
        h, w = self.height, self.width
        luma = nv12[:h].float() - 16.0
        chroma = nv12[h:].view(h // 2, w // 2, 2).float() - 128.0
        chroma = chroma.repeat_interleave(2, 0).repeat_interleave(2, 1)
        yuv = torch.cat([luma.unsqueeze(-1), chroma], dim=-1)
        rgb = (yuv @ self.matrix.T).clamp_(0, 255)
        out.copy_(rgb.permute(2, 0, 1).to(torch.uint8))


class VideoFrameExtractor:
    """Converts every decoded surface and encodes the frames in batches."""

    def __init__(self, height: int, width: int, batch_size: int, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self.batch_size = batch_size
        self.convert = Nv12ToRgb(height, width)
        self.rgb_buffer = torch.empty(3, height, width, dtype=torch.uint8, device="cuda")
        self.batch = torch.empty(batch_size, 3, height, width, dtype=torch.uint8, device="cuda")
        self.batch_host = torch.empty(self.batch.shape, dtype=torch.uint8, pin_memory=True)
        self.decode_stream = torch.cuda.Stream()
        self.copy_stream = torch.cuda.Stream()
        self.fill = 0
        self.written = 0
        torch.cuda.synchronize()

    def push(self, surface: torch.Tensor) -> None:
        """`surface` is a page-locked NV12 frame that stays valid until the extractor is closed."""
        with torch.cuda.stream(self.decode_stream):
            nv12 = surface.to("cuda", non_blocking=True)
            self.convert(nv12, out=self.rgb_buffer)
        self.copy_stream.wait_stream(self.decode_stream)
        with torch.cuda.stream(self.copy_stream):
            slot = self.batch[self.fill]
            slot.copy_(self.rgb_buffer, non_blocking=True)
        self.fill += 1
        if self.fill == self.batch_size:
            self.flush()

    def flush(self) -> None:
        if self.fill == 0:
            return
        with torch.cuda.stream(self.copy_stream):
            self.batch_host[: self.fill].copy_(self.batch[: self.fill], non_blocking=True)
        self.copy_stream.synchronize()
        for i in range(self.fill):
            path = os.path.join(self.directory, f"frame_{self.written + i + 1}.jpg")
            torchvision.io.write_jpeg(self.batch_host[i], path, quality=92)
        self.written += self.fill
        self.fill = 0


def extract(surfaces: Iterable[torch.Tensor], height: int, width: int, directory: str) -> int:
    extractor = VideoFrameExtractor(height, width, batch_size=10, directory=directory)
    for surface in surfaces:
        extractor.push(surface)
    extractor.flush()
    return extractor.written


if __name__ == "__main__":
    H, W = 1080, 1920
    clip = [
        torch.randint(0, 255, (H * 3 // 2, W), dtype=torch.uint8).pin_memory() for _ in range(30)
    ]
    print(extract(clip, H, W, "/tmp/frames"))
