"""Augmentation threads that hand finished GPU batches to the trainer through a bounded queue."""
import queue
import threading
from typing import NamedTuple

import torch
from torch import nn


class Ready(NamedTuple):
    images: torch.Tensor
    labels: torch.Tensor
    event: torch.cuda.Event

    def claim(self):
        stream = torch.cuda.current_stream()
        stream.wait_event(self.event)
        for t in (self.images, self.labels):
            t.record_stream(stream)
        return self.images, self.labels


class Augmenter(threading.Thread):
    def __init__(self, source, sink, seed):
        super().__init__(daemon=True)
        self.source, self.sink = source, sink
        self.stream = torch.cuda.Stream()
        self.rng = torch.Generator().manual_seed(seed)

    def _augment(self, images):
        dy, dx = torch.randint(-4, 5, (2,), generator=self.rng).tolist()
        images = torch.roll(images, (dy, dx), dims=(2, 3))
        if torch.rand((), generator=self.rng) < 0.5:
            images = images.flip(3)
        return (images - 0.5) / 0.25

    def run(self):
        with torch.cuda.stream(self.stream):
            while True:
                item = self.source.get()
                if item is None:
                    self.source.put(None)
                    self.sink.put(None)
                    return
                images, labels = (t.cuda(non_blocking=True) for t in item)
                images = self._augment(images)
                self.sink.put(Ready(images, labels, self.stream.record_event()))


def produce(source, batches):
    for i in range(batches):
        images = torch.rand(64, 3, 64, 64).pin_memory()
        labels = torch.randint(0, 5, (64,)).pin_memory()
        source.put((images, labels))
    source.put(None)


def main(workers=3, batches=300):
    source, sink = queue.Queue(8), queue.Queue(4)
    threads = [Augmenter(source, sink, seed=i) for i in range(workers)]
    for t in threads:
        t.start()
    threading.Thread(target=produce, args=(source, batches), daemon=True).start()
    model = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 31 * 31, 5)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    alive, steps = workers, 0
    while alive:
        item = sink.get()
        if item is None:
            alive -= 1
            continue
        images, labels = item.claim()
        loss = nn.functional.cross_entropy(model(images), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        steps += 1
    print(steps, loss.item())


if __name__ == "__main__":
    main()
