"""Threaded data pipeline: decode in a pool, move to the GPU in one transfer thread."""
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn
import torch.nn.functional as F

_EOF = object()


def _apply(fn, obj):
    if isinstance(obj, Mapping):
        return {k: _apply(fn, v) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(_apply(fn, v) for v in obj)
    return fn(obj)


class Transfer:
    """Copies a nested batch to the device on a dedicated stream and waits for the copy."""

    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def __call__(self, batch):
        pinned = []

        def move(obj):
            if isinstance(obj, torch.Tensor) and obj.device.type == "cpu":
                page_locked = obj.pin_memory()
                pinned.append(page_locked)
                return page_locked.to(self.device, non_blocking=True)
            return obj

        with torch.cuda.stream(self.stream):
            batch = _apply(move, batch)
        self.stream.synchronize()
        return batch


class Pipeline:
    def __init__(self, keys, decode, collate, batch_size, device, workers=8, depth=2):
        self.keys = keys
        self.decode = decode
        self.collate = collate
        self.batch_size = batch_size
        self.device = device
        self.workers = workers
        self.out: "queue.Queue" = queue.Queue(maxsize=depth)
        self.thread = threading.Thread(target=self._produce, daemon=True)

    def _produce(self):
        transfer = Transfer(self.device)
        with ThreadPoolExecutor(self.workers) as pool:
            for start in range(0, len(self.keys) - self.batch_size + 1, self.batch_size):
                samples = list(pool.map(self.decode, self.keys[start:start + self.batch_size]))
                self.out.put(transfer(self.collate(samples)))
        self.out.put(_EOF)

    def __iter__(self):
        self.thread.start()
        while (item := self.out.get()) is not _EOF:
            yield item


def decode(key):
    g = torch.Generator().manual_seed(key)
    image = torch.randint(0, 256, (3, 224, 224), generator=g, dtype=torch.uint8)
    return image, key % 1000


def collate(samples):
    images, labels = zip(*samples)
    return {"image": torch.stack(images), "label": torch.tensor(labels)}


class Trainer:
    def __init__(self, device):
        self.device = device
        self.model = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=4), nn.ReLU(), nn.Conv2d(64, 256, 3, stride=2), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 1000),
        ).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.running_loss = torch.zeros((), device=device)

    def step(self, batch):
        x = batch["image"].float().div_(255.0)
        loss = F.cross_entropy(self.model(x), batch["label"])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.running_loss += loss.detach()


def main():
    device = torch.device("cuda", 0)
    trainer = Trainer(device)
    pipeline = Pipeline(range(64 * 100), decode, collate, 64, device)
    steps = 0
    for batch in pipeline:
        trainer.step(batch)
        steps += 1
    print(float(trainer.running_loss) / steps)


if __name__ == "__main__":
    main()
