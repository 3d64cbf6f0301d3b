"""Decode thread and inference thread that trade device frames through two queues."""
import queue
import threading
from dataclasses import dataclass
from typing import Iterator, Optional

import torch
import torch.nn as nn


@dataclass
class Frame:
    data: torch.Tensor
    index: int = -1
    filled: Optional[torch.cuda.Event] = None
    consumed: Optional[torch.cuda.Event] = None


class FrameSource(threading.Thread):
    """Uploads and normalises frames on its own stream into recycled buffers."""

    def __init__(self, raw: Iterator[torch.Tensor], shape, depth: int, device: torch.device):
        super().__init__(daemon=True)
        self.raw = raw
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.ready: "queue.Queue[Optional[Frame]]" = queue.Queue()
        self.empty: "queue.Queue[Frame]" = queue.Queue()
        for _ in range(depth):
            self.empty.put(Frame(torch.empty(shape, device=device)))
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def run(self) -> None:
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            for index, image in enumerate(self.raw):
                frame = self.empty.get()
                if frame.consumed is not None:
                    self.stream.wait_event(frame.consumed)
                upload = image.to(self.device, non_blocking=True)
                torch.sub(upload.float(), 127.5, out=frame.data)
                frame.data.div_(127.5)
                frame.index = index
                frame.filled = self.stream.record_event()
                self.ready.put(frame)
        self.ready.put(None)


class Detector:
    def __init__(self, device: torch.device, classes: int = 16):
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 7, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes)).to(device).eval()

    @torch.inference_mode()
    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        return self.net(batch)


class Pipeline:
    def __init__(self, source: FrameSource, detector: Detector):
        self.source = source
        self.detector = detector

    def results(self) -> Iterator[torch.Tensor]:
        while True:
            frame = self.source.ready.get()
            if frame is None:
                return
            current = torch.cuda.current_stream()
            current.wait_event(frame.filled)
            scores = self.detector(frame.data.unsqueeze(0))
            frame.consumed = current.record_event()
            self.source.empty.put(frame)
            yield scores


def camera(count: int, height: int, width: int) -> Iterator[torch.Tensor]:
    for i in range(count):
        yield torch.full((3, height, width), i % 256, dtype=torch.uint8).pin_memory()


def main() -> None:
    device = torch.device("cuda", 0)
    source = FrameSource(camera(120, 1080, 1920), (3, 1080, 1920), depth=4, device=device)
    pipeline = Pipeline(source, Detector(device))
    source.start()
    total = torch.zeros(16, device=device)
    for scores in pipeline.results():
        total += scores[0]
    print(total.norm().item())


if __name__ == "__main__":
    main()
