"""Upload, color conversion, segmentation and download of video frames on separate streams."""
from collections import deque
from typing import Deque, Iterable, Iterator, Tuple

import numpy as np
import torch
from torch import nn


class VideoPipeline:
    def __init__(self, model: nn.Module, height: int, width: int, device: torch.device, surfaces: int = 4):
        self.model = model.to(device).eval()
        self.device = device
        self.upload, self.convert = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.infer, self.download = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.surfaces = [
            torch.empty(height * 3 // 2, width, dtype=torch.uint8, device=device) for _ in range(surfaces)
        ]
        self.finished = [torch.cuda.Event() for _ in range(surfaces)]
        self.height, self.width = height, width
        self._count = 0
        torch.cuda.synchronize(device)

    def _to_rgb(self, surface: torch.Tensor) -> torch.Tensor:
        luma = surface[: self.height].float()
        chroma = surface[self.height :].float().view(self.height // 2, self.width // 2, 2) - 128.0
        chroma = chroma.repeat_interleave(2, dim=0).repeat_interleave(2, dim=1)
        u, v = chroma[..., 0], chroma[..., 1]
        rgb = torch.stack([luma + 1.402 * v, luma - 0.344 * u - 0.714 * v, luma + 1.772 * u])
        return rgb.clamp_(0.0, 255.0).div_(255.0)[None]

    @torch.inference_mode()
    def _submit(self, nv12: np.ndarray) -> Tuple[torch.Tensor, torch.cuda.Event]:
        index = self._count % len(self.surfaces)
        self._count += 1
        surface, finished = self.surfaces[index], self.finished[index]
        locked = torch.from_numpy(nv12).pin_memory()
        self.upload.wait_event(finished)
        with torch.cuda.stream(self.upload):
            surface.copy_(locked, non_blocking=True)
        self.convert.wait_stream(self.upload)
        with torch.cuda.stream(self.convert):
            rgb = self._to_rgb(surface)
        self.infer.wait_stream(self.convert)
        with torch.cuda.stream(self.infer):
            mask = self.model(rgb).argmax(dim=1).to(torch.uint8)
        rgb.record_stream(self.infer)
        self.download.wait_stream(self.infer)
        with torch.cuda.stream(self.download):
            host = torch.empty(mask.shape, dtype=torch.uint8, pin_memory=True)
            host.copy_(mask, non_blocking=True)
            finished.record(self.download)
            arrived = self.download.record_event()
        mask.record_stream(self.download)
        return host, arrived

    def masks(self, frames: Iterable[np.ndarray], depth: int = 3) -> Iterator[np.ndarray]:
        pending: Deque[Tuple[torch.Tensor, torch.cuda.Event]] = deque()
        for frame in frames:
            pending.append(self._submit(frame))
            if len(pending) > depth:
                host, arrived = pending.popleft()
                arrived.synchronize()
                yield host.numpy().copy()
        while pending:
            host, arrived = pending.popleft()
            arrived.synchronize()
            yield host.numpy().copy()


def main() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 5, 1)
    )
    pipeline = VideoPipeline(model, 720, 1280, torch.device("cuda"))
    rng = np.random.default_rng(4)
    frames = (rng.integers(0, 256, (1080, 1280), dtype=np.uint8) for _ in range(48))
    print(sum(int(mask.sum()) for mask in pipeline.masks(frames)))


if __name__ == "__main__":
    main()
