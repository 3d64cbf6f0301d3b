"""Streams rendered frames from the device to disk through a writer thread."""
from __future__ import annotations

import queue
import threading
from pathlib import Path

import torch


class FrameWriter:
    def __init__(self, path: Path, shape: tuple[int, ...], device: torch.device, slots: int = 3):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.file = open(path, "wb")
        self.free: queue.Queue = queue.Queue()
        self.busy: queue.Queue = queue.Queue()
        for _ in range(slots):
            self.free.put(torch.empty(shape, dtype=torch.uint8, pin_memory=True))
        self.error: BaseException | None = None
        self.closed = False
        self.thread = threading.Thread(target=self._drain, daemon=True)
        self.thread.start()

    def _drain(self) -> None:
        while True:
            item = self.busy.get()
            if item is None:
                return
            buffer, event = item
            try:
                event.synchronize()
                if self.error is None:
                    self.file.write(memoryview(buffer.numpy()).cast("B"))
            except BaseException as exc:
                self.error = exc
            finally:
                self.free.put(buffer)

    def write(self, frame: torch.Tensor) -> None:
        if self.closed:
            raise ValueError("writer is closed")
        if self.error is not None:
            raise self.error
        buffer = self.free.get()
        copied = torch.cuda.Event(blocking=True)
        try:
            ready = torch.cuda.current_stream(self.device).record_event()
            self.stream.wait_event(ready)
            with torch.cuda.stream(self.stream):
                packed = frame.clamp(0, 1).mul(255).to(torch.uint8)
                buffer.copy_(packed, non_blocking=True)
                frame.record_stream(self.stream)
            copied.record(self.stream)
        except BaseException:
            self.stream.synchronize()
            self.free.put(buffer)
            raise
        self.busy.put((buffer, copied))
        torch.cuda.current_stream(self.device).wait_event(copied)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.busy.put(None)
        self.thread.join()
        self.file.close()
        if self.error is not None:
            raise self.error


def render(steps: int, size: int, path: Path) -> None:
    device = torch.device("cuda:0")
    axis = torch.linspace(-1.5, 1.5, size, device=device)
    z0 = torch.complex(*torch.meshgrid(axis, axis, indexing="xy"))
    canvas = torch.empty(size, size, device=device)
    writer = FrameWriter(path, (size, size), device)
    try:
        for step in range(steps):
            c = torch.tensor(complex(-0.8, 0.05 * step / steps), device=device)
            z = z0.clone()
            canvas.zero_()
            for _ in range(48):
                z = z * z + c
                canvas.add_((z.abs() < 2.0).float(), alpha=1 / 48)
            writer.write(canvas)
    finally:
        writer.close()


if __name__ == "__main__":
    render(60, 1024, Path("frames.raw"))
