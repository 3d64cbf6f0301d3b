"""Records are decoded and sent to the device by threads; training takes them from a queue."""
import queue
import threading

import numpy as np
import torch
from torch import nn

_END = object()


class DevicePrefetcher:
    """Iterates over device batches that ``workers`` threads prepare ahead of time."""

    def __init__(self, reader, workers=2, depth=4, device="cuda:0"):
        self.device = torch.device(device)
        self.reader = iter(reader)
        self.reader_lock = threading.Lock()
        self.ready = queue.Queue(maxsize=depth)
        self.alive = workers
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(workers)]
        for thread in self.threads:
            thread.start()

    def _next_record(self):
        with self.reader_lock:
            return next(self.reader, _END)

    def _run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(device=self.device)
        try:
            with torch.cuda.stream(stream):
                while (record := self._next_record()) is not _END:
                    batch = self._to_device(*record)
                    event = torch.cuda.Event()
                    event.record()
                    self.ready.put((batch, event))
        except BaseException as error:
            self.ready.put((error, None))
        finally:
            self.ready.put((_END, None))

    def _to_device(self, images, labels):
        images = torch.from_numpy(images).pin_memory().to(self.device, non_blocking=True)
        labels = torch.from_numpy(labels).pin_memory().to(self.device, non_blocking=True)
        images = images.permute(0, 3, 1, 2).float().div_(255)
        flip = torch.rand(images.shape[0], device=self.device) < 0.5
        images = torch.where(flip.view(-1, 1, 1, 1), images.flip(-1), images)
        return images.sub_(0.45).div_(0.225), labels

    def __iter__(self):
        return self

    def __next__(self):
        while self.alive:
            item, event = self.ready.get()
            if item is _END:
                self.alive -= 1
                continue
            if isinstance(item, BaseException):
                raise item
            current = torch.cuda.current_stream(self.device)
            current.wait_event(event)
            for tensor in item:
                tensor.record_stream(current)
            return item
        raise StopIteration


def records(count, batch=64, size=128, classes=100, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        images = rng.integers(0, 255, (batch, size, size, 3), dtype=np.uint8)
        yield images, rng.integers(0, classes, batch)


def train(steps=50, device="cuda:0"):
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(2048, 100),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    total = torch.zeros((), device=device)
    for images, labels in DevicePrefetcher(records(steps), device=device):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total.item() / steps


if __name__ == "__main__":
    print(train())
