"""Decode-and-augment thread that feeds a training loop through a bounded queue."""
import queue
import threading

import torch
from torch import nn


class Augment:
    def __init__(self, size):
        self.size = size

    def __call__(self, images):
        x = images.float().div_(255)
        x = nn.functional.interpolate(x, size=self.size, mode="bilinear", antialias=True)
        flip = torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5
        return torch.where(flip, x.flip(-1), x)


class Feeder(threading.Thread):
    _END = object()

    def __init__(self, loader, transform, device, depth=3):
        super().__init__(daemon=True)
        self.loader, self.transform = loader, transform
        self.device = torch.device(device)
        self.queue = queue.Queue(maxsize=depth)
        self.stop = threading.Event()

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream), torch.no_grad():
            for images, labels in self.loader:
                x = self.transform(images.to(self.device, non_blocking=True))
                y = labels.to(self.device, non_blocking=True)
                ready = torch.cuda.Event()
                ready.record(stream)
                if not self._put((x, y, ready)):
                    return
                del x, y
            self._put(self._END)

    def _put(self, item):
        while not self.stop.is_set():
            try:
                self.queue.put(item, timeout=0.5)
                return True
            except queue.Full:
                continue
        return False

    def __iter__(self):
        self.start()
        try:
            while True:
                item = self.queue.get()
                if item is self._END:
                    return
                x, y, ready = item
                del item
                consumer = torch.cuda.current_stream(self.device)
                consumer.wait_event(ready)
                x.record_stream(consumer)
                y.record_stream(consumer)
                yield x, y
        finally:
            self.stop.set()


def random_loader(batches, batch):
    for _ in range(batches):
        images = torch.randint(0, 256, (batch, 3, 256, 256), dtype=torch.uint8)
        yield images.pin_memory(), torch.randint(0, 10, (batch,)).pin_memory()


def train(batches=64, batch=64, device="cuda:0"):
    torch.cuda.set_device(device)
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2), nn.ReLU(), nn.Conv2d(64, 128, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for x, y in Feeder(random_loader(batches, batch), Augment(224), device):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


if __name__ == "__main__":
    print(train()[-1])
