from __future__ import annotations

import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class DeviceFrame:
    pixels: torch.Tensor
    ready: torch.cuda.Event
    released: torch.cuda.Event
    index: int = -1


class FrameReader(threading.Thread):
    """Uploads frames on its own stream into buffers handed back by the consumer."""

    def __init__(self, num_frames: int, shape: tuple[int, ...], depth: int = 4) -> None:
        super().__init__(daemon=True)
        self.num_frames = num_frames
        self.host = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self.filled: queue.Queue = queue.Queue()
        self.free: queue.Queue = queue.Queue()
        self.stream = torch.cuda.Stream()
        for _ in range(depth):
            buf = torch.empty(shape, dtype=torch.uint8, device="cuda")
            frame = DeviceFrame(buf, torch.cuda.Event(), torch.cuda.Event())
            frame.released.record()
            self.free.put(frame)

    def _decode(self, index: int) -> None:
        self.host.fill_(index % 251)

    def run(self) -> None:
        try:
            for i in range(self.num_frames):
                frame = self.free.get()
                if i > 0:
                    self.last.synchronize()
                self._decode(i)
                with torch.cuda.stream(self.stream):
                    self.stream.wait_event(frame.released)
                    frame.pixels.copy_(self.host, non_blocking=True)
                    frame.ready.record(self.stream)
                self.last = frame.ready
                frame.index = i
                self.filled.put(frame)
        finally:
            self.filled.put(None)

    def frames(self):
        while (frame := self.filled.get()) is not None:
            torch.cuda.current_stream().wait_event(frame.ready)
            yield frame.index, frame.pixels
            frame.released.record(torch.cuda.current_stream())
            self.free.put(frame)


def main() -> None:
    reader = FrameReader(200, (3, 720, 1280))
    reader.start()
    mean = torch.zeros(3, device="cuda", dtype=torch.float64)
    for index, pixels in reader.frames():
        mean += pixels.double().mean(dim=(1, 2))
    reader.join()
    print((mean / reader.num_frames).tolist())


if __name__ == "__main__":
    main()
