"""Frame pipeline with recycled slots passed between a reader thread and the model."""
import queue
import threading
from typing import Callable, Iterator, Optional

import numpy as np
import torch


class FrameSlot:
    def __init__(self, shape, device: torch.device):
        self.host = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self.dev = torch.empty(shape, dtype=torch.uint8, device=device)
        self.used = torch.cuda.Event(blocking=True)
        self.index = -1


class FramePipe:
    def __init__(self, read: Callable[[np.ndarray], bool], shape, device: torch.device, slots: int = 4):
        self.read = read
        self.device = device
        self.idle: "queue.SimpleQueue[Optional[FrameSlot]]" = queue.SimpleQueue()
        self.full: "queue.SimpleQueue[Optional[FrameSlot]]" = queue.SimpleQueue()
        self.error: Optional[BaseException] = None
        for _ in range(slots):
            self.idle.put(FrameSlot(shape, device))
        torch.cuda.current_stream(device).synchronize()
        self.thread = threading.Thread(target=self._reader, daemon=True)
        self.thread.start()

    def _reader(self) -> None:
        try:
            stream = torch.cuda.Stream(device=self.device)
            index = 0
            while True:
                slot = self.idle.get()
                if slot is None or not self.read(slot.host.numpy()):
                    break
                slot.used.synchronize()
                with torch.cuda.stream(stream):
                    slot.dev.copy_(slot.host, non_blocking=True)
                stream.synchronize()
                slot.index = index
                index += 1
                self.full.put(slot)
        except BaseException as exc:
            self.error = exc
        finally:
            self.full.put(None)

    def frames(self, infer: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[torch.Tensor]:
        while True:
            slot = self.full.get()
            if slot is None:
                self.full.put(None)
                if self.error is not None:
                    raise self.error
                return
            current = torch.cuda.current_stream(self.device)
            try:
                x = slot.dev.permute(2, 0, 1).float().div_(255.0)
            finally:
                slot.used.record(current)
                self.idle.put(slot)
            yield infer(x.unsqueeze(0))

    def close(self) -> None:
        self.idle.put(None)
        self.thread.join()
        torch.cuda.synchronize(self.device)


def run_video(read, model, shape, device: torch.device):
    pipe = FramePipe(read, shape, device)
    try:
        with torch.no_grad():
            return [out.argmax().item() for out in pipe.frames(model)]
    finally:
        pipe.close()
