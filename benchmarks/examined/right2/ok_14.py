import io
import os
import queue
import threading
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn


@dataclass
class Staging:
    buffer: torch.Tensor
    event: torch.cuda.Event
    nbytes: int = 0
    name: str = ""


class PinnedCheckpointWriter:
    """Streams parameters to disk through a ring of pinned buffers."""

    def __init__(self, directory: str, chunk_bytes: int, depth: int = 4):
        self.directory = directory
        self.chunk_bytes = chunk_bytes
        self.free: "queue.Queue[Staging]" = queue.Queue()
        self.todo: "queue.Queue[Optional[Staging]]" = queue.Queue()
        for _ in range(depth):
            buffer = torch.empty(chunk_bytes, dtype=torch.uint8, pin_memory=True)
            self.free.put(Staging(buffer, torch.cuda.Event(blocking=True)))
        self.d2h = torch.cuda.Stream()
        self.thread: Optional[threading.Thread] = None

    def _drain(self) -> None:
        while (item := self.todo.get()) is not None:
            item.event.synchronize()
            path = os.path.join(self.directory, item.name)
            with io.open(path, "ab") as handle:
                handle.write(memoryview(item.buffer[: item.nbytes].numpy()))
            self.free.put(item)

    def __enter__(self):
        self.thread = threading.Thread(target=self._drain)
        self.thread.start()
        self.d2h.wait_stream(torch.cuda.current_stream())
        return self

    def add(self, name: str, tensor: torch.Tensor) -> None:
        flat = tensor.detach().view(-1).view(torch.uint8)
        for start in range(0, flat.numel(), self.chunk_bytes):
            chunk = flat[start : start + self.chunk_bytes]
            item = self.free.get()
            item.name, item.nbytes = name, chunk.numel()
            with torch.cuda.stream(self.d2h):
                item.buffer[: item.nbytes].copy_(chunk, non_blocking=True)
                item.event.record()
            self.todo.put(item)

    def __exit__(self, *exc):
        self.todo.put(None)
        self.thread.join()
        torch.cuda.current_stream().wait_stream(self.d2h)
        return False


def train(model: nn.Module, optimizer, loader, directory: str, every: int = 500):
    writer = PinnedCheckpointWriter(directory, 32 << 20)
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == every - 1:
            with writer:
                for name, param in model.named_parameters():
                    writer.add(f"{step}.{name}.bin", param)
