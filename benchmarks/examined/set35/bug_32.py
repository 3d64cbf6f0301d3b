"""Raw NV12 clip reader with a ring of device surfaces and an RGB converter."""
import os
from typing import Iterator, List

import numpy as np
import torch


class SurfaceReader:
    """Uploads frames into a small ring of device surfaces."""

    def __init__(self, path: str, width: int, height: int, surfaces: int = 4):
        self.file = open(path, "rb", buffering=0)
        self.width, self.height = width, height
        self.frame_bytes = width * height * 3 // 2
        self.total = os.path.getsize(path) // self.frame_bytes
        self.upload = torch.cuda.Stream()
        self.staging = [
            torch.empty(self.frame_bytes, dtype=torch.uint8, pin_memory=True) for _ in range(surfaces)
        ]
        self.surfaces = [
            torch.empty(self.frame_bytes, dtype=torch.uint8, device="cuda") for _ in range(surfaces)
        ]
        self.uploaded = [torch.cuda.Event() for _ in range(surfaces)]
        self.upload.wait_stream(torch.cuda.current_stream())
        self.index = 0

    def next_frame(self) -> torch.Tensor:
        if self.index >= self.total:
            raise StopIteration
        slot = self.index % len(self.surfaces)
        self.uploaded[slot].synchronize()
        self.file.readinto(memoryview(self.staging[slot].numpy()))
        with torch.cuda.stream(self.upload):
            self.surfaces[slot].copy_(self.staging[slot], non_blocking=True)
            self.uploaded[slot].record()
        self.index += 1
        torch.cuda.current_stream().wait_event(self.uploaded[slot])
        return self.surfaces[slot]

    def __iter__(self) -> Iterator[torch.Tensor]:
        while self.index < self.total:
            yield self.next_frame()


class RgbConverter:
    def __init__(self, width: int, height: int, scale: int = 2):
        self.width, self.height = width, height
        self.out_size = (height // scale, width // scale)
        self.matrix = torch.tensor(
            [[1.164, 0.0, 1.793], [1.164, -0.213, -0.533], [1.164, 2.112, 0.0]], device="cuda"
        )
        self.offset = torch.tensor([16.0, 128.0, 128.0], device="cuda").view(3, 1, 1)

    def __call__(self, nv12: torch.Tensor) -> torch.Tensor:
        w, h = self.width, self.height
        luma = nv12[: w * h].view(1, 1, h, w).float()
        chroma = nv12[w * h :].view(h // 2, w // 2, 2).permute(2, 0, 1)[None].float()
        luma = torch.nn.functional.interpolate(luma, self.out_size, mode="area")
        chroma = torch.nn.functional.interpolate(chroma, self.out_size, mode="bilinear")
        yuv = torch.cat([luma, chroma], dim=1)[0] - self.offset
        rgb = torch.einsum("ij,jhw->ihw", self.matrix, yuv)
        return rgb.clamp_(0, 255).to(torch.uint8)


@torch.inference_mode()
def read_clip(path: str, width: int, height: int, limit: int) -> torch.Tensor:
    reader = SurfaceReader(path, width, height)
    convert = RgbConverter(width, height)
    frames: List[torch.Tensor] = []
    for frame in reader:
        frames.append(convert(frame))
        if len(frames) == limit:
            break
    return torch.stack(frames)


def main() -> None:
    clip = read_clip("/data/clip_3840x2160.nv12", 3840, 2160, limit=240)
    host = clip.float().mean(dim=(1, 2, 3)).cpu()
    np.save("/tmp/brightness.npy", host.numpy())
    print(clip.shape, host[:8].tolist())


if __name__ == "__main__":
    main()
