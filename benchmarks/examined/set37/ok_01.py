"""Frames are uploaded through three page-locked slots; the host runs at most two copies ahead."""
import threading
from typing import Iterable, Iterator, Tuple

import numpy as np
import torch
import torch.nn.functional as F


class FrameUploader:
    SLOTS = 3

    def __init__(self, shape: Tuple[int, ...], device: torch.device):
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self._slots = [torch.empty(shape, dtype=torch.uint8, pin_memory=True) for _ in range(self.SLOTS)]
        self._events = [torch.cuda.Event() for _ in range(self.SLOTS)]
        self._step = 0
        self._lock = threading.Lock()

    def upload(self, frame: np.ndarray) -> torch.Tensor:
        with self._lock:
            step = self._step
            if step >= 2:
                self._events[(step - 2) % self.SLOTS].synchronize()
            slot, event = self._slots[step % self.SLOTS], self._events[step % self.SLOTS]
            np.copyto(slot.numpy(), frame)
            with torch.cuda.stream(self.copy_stream):
                uploaded = slot.to(self.device, non_blocking=True)
                event.record(self.copy_stream)
            consumer = torch.cuda.current_stream(self.device)
            consumer.wait_event(event)
            uploaded.record_stream(consumer)
            self._step += 1
            return uploaded


class MotionScore:
    def __init__(self, uploader: FrameUploader):
        self.uploader = uploader
        self.weights = torch.tensor([0.299, 0.587, 0.114], device=uploader.device)
        self.previous = None

    def _luma(self, frame: torch.Tensor) -> torch.Tensor:
        luma = (frame.float() * self.weights).sum(dim=-1)
        return F.avg_pool2d(luma[None, None], 5, stride=2)[0, 0]

    def scores(self, frames: Iterable[np.ndarray]) -> Iterator[torch.Tensor]:
        for frame in frames:
            luma = self._luma(self.uploader.upload(frame))
            if self.previous is not None:
                yield (luma - self.previous).abs().mean()
            self.previous = luma


def synthetic(count: int, height: int, width: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    frame = np.empty((height, width, 3), dtype=np.uint8)
    for _ in range(count):
        frame[...] = rng.integers(0, 255, frame.shape, dtype=np.uint8)
        yield frame


def main() -> None:
    device = torch.device("cuda")
    uploader = FrameUploader((1080, 1920, 3), device)
    values = list(MotionScore(uploader).scores(synthetic(64, 1080, 1920)))
    print(torch.stack(values).cpu().numpy())


if __name__ == "__main__":
    main()
