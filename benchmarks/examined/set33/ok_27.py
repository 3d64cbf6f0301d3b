import queue
import threading
from typing import Iterable, Iterator, Tuple

import torch

_END = object()


class DeviceFeeder:
    """Moves batches to the device in a thread, ahead of the training loop."""

    def __init__(self, batches: Iterable, device="cuda:0", depth: int = 2):
        self.batches = batches
        self.device = torch.device(device)
        self.queue: "queue.Queue" = queue.Queue(depth)
        self.error = None
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        try:
            torch.cuda.set_device(self.device)
            stream = torch.cuda.Stream(self.device)
            with torch.cuda.stream(stream):
                mean = torch.tensor([0.485, 0.456, 0.406], device=self.device).view(1, 3, 1, 1)
                for images, labels in self.batches:
                    images = images.pin_memory().to(self.device, non_blocking=True)
                    labels = labels.pin_memory().to(self.device, non_blocking=True)
                    images = images.float().div_(255.0).sub_(mean)
                    ready = torch.cuda.Event()
                    ready.record(stream)
                    self.queue.put((images, labels, ready))
                    del images, labels
        except Exception as exc:
            self.error = exc
        finally:
            self.queue.put(_END)

    def __iter__(self) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
        while True:
            item = self.queue.get()
            if item is _END:
                break
            images, labels, ready = item
            del item
            current = torch.cuda.current_stream(self.device)
            current.wait_event(ready)
            images.record_stream(current)
            labels.record_stream(current)
            yield images, labels
        self.thread.join()
        if self.error is not None:
            raise self.error


def train_epoch(model, loader, optimizer, criterion) -> float:
    running = torch.zeros((), device="cuda:0")
    steps = 0
    for images, labels in DeviceFeeder(loader):
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        running += loss.detach()
        steps += 1
    return float(running) / max(steps, 1)
