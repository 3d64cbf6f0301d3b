"""Background loader that moves batches to the device from worker threads."""
import queue
import threading
from dataclasses import dataclass
from typing import Iterator, List, Optional

import numpy as np
import torch


@dataclass
class Batch:
    index: int
    image: torch.Tensor
    label: torch.Tensor
    ready: torch.cuda.Event


class DeviceLoader:
    """Workers pin and upload; the iterator hands batches out in order."""

    def __init__(self, length: int, batch: int, workers: int, device: torch.device, depth: int = 4):
        self.length, self.batch = length, batch
        self.device = device
        self.tasks: "queue.Queue[Optional[int]]" = queue.Queue()
        self.done: "queue.Queue[Batch]" = queue.Queue()
        self.tickets = threading.Semaphore(depth)
        self.threads: List[threading.Thread] = [
            threading.Thread(target=self._work, args=(w,), daemon=True) for w in range(workers)
        ]
        for t in self.threads:
            t.start()

    def _read(self, rng: np.random.Generator) -> tuple:
        image = torch.from_numpy(rng.integers(0, 255, (self.batch, 3, 224, 224), dtype=np.uint8))
        label = torch.from_numpy(rng.integers(0, 1000, self.batch))
        return image.pin_memory(), label.pin_memory()

    def _work(self, worker: int) -> None:
        torch.cuda.set_device(self.device)
        rng = np.random.default_rng(worker)
        stream = torch.cuda.Stream(self.device)
        while True:
            index = self.tasks.get()
            if index is None:
                return
            image, label = self._read(rng)
            with torch.cuda.stream(stream):
                x = image.to(self.device, non_blocking=True)
                y = label.to(self.device, non_blocking=True)
                x = x.float().div_(255.0)
                ready = torch.cuda.Event()
                ready.record(stream)
            self.done.put(Batch(index, x, y, ready))

    def __iter__(self) -> Iterator[tuple]:
        stash = {}
        submitted = 0
        for wanted in range(self.length):
            while submitted < self.length and self.tickets.acquire(blocking=False):
                self.tasks.put(submitted)
                submitted += 1
            while wanted not in stash:
                item = self.done.get()
                stash[item.index] = item
            item = stash.pop(wanted)
            current = torch.cuda.current_stream(self.device)
            current.wait_event(item.ready)
            item.image.record_stream(current)
            item.label.record_stream(current)
            self.tickets.release()
            yield item.image, item.label

    def close(self) -> None:
        for _ in self.threads:
            self.tasks.put(None)
        for t in self.threads:
            t.join()


def main() -> None:
    device = torch.device("cuda", 0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 7, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(32, 1000),
    ).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DeviceLoader(length=64, batch=64, workers=4, device=device)
    total = torch.zeros((), device=device)
    for image, label in loader:
        loss = torch.nn.functional.cross_entropy(model(image), label)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.detach()
    loader.close()
    print(total.item() / 64)


if __name__ == "__main__":
    main()
