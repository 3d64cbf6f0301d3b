"""Feeding a training loop from a GPU augmentation pipeline with recycled output slots."""
import queue
from dataclasses import dataclass, field

import torch


@dataclass
class OutputSlot:
    images: torch.Tensor
    labels: torch.Tensor
    ready: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class AugmentPipeline:
    """Runs crops and normalisation on its own stream into a fixed number of output slots."""

    def __init__(self, source, batch, shape, depth=2, device="cuda:0"):
        self.source = iter(source)
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self._free = queue.Queue()
        self._done = queue.Queue()
        self._shared = None
        self._mean = torch.tensor([0.485, 0.456, 0.406], device=self.device).view(1, 3, 1, 1)
        self._std = torch.tensor([0.229, 0.224, 0.225], device=self.device).view(1, 3, 1, 1)
        for _ in range(depth):
            self._free.put(
                OutputSlot(
                    torch.empty((batch, *shape), device=self.device),
                    torch.empty(batch, dtype=torch.int64, device=self.device),
                )
            )
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def schedule_run(self):
        try:
            raw, labels = next(self.source)
        except StopIteration:
            self._done.put(None)
            return
        slot = self._free.get()
        with torch.cuda.stream(self.stream):
            x = raw.pin_memory().to(self.device, non_blocking=True).float().div_(255.0)
            slot.images.copy_(x.sub_(self._mean).div_(self._std))
            slot.labels.copy_(labels.pin_memory(), non_blocking=True)
            slot.ready.record(self.stream)
        self._done.put(slot)

    def share_outputs(self):
        self._shared = self._done.get()
        return self._shared

    def release_outputs(self):
        self._free.put(self._shared)
        self._shared = None


class FrameworkIterator:
    """Hands out framework-owned tensors and keeps the pipeline one run ahead."""

    def __init__(self, pipe, prefetch=2):
        self.pipe = pipe
        for _ in range(prefetch):
            self.pipe.schedule_run()

    def __iter__(self):
        return self

    def __next__(self):
        slot = self.pipe.share_outputs()
        if slot is None:
            raise StopIteration
        user_stream = torch.cuda.current_stream(self.pipe.device)
        user_stream.wait_event(slot.ready)
        images = torch.empty_like(slot.images)
        labels = torch.empty_like(slot.labels)
        images.copy_(slot.images, non_blocking=True)
        labels.copy_(slot.labels, non_blocking=True)
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        return images, labels


def train(model, source, batch=64, lr=0.1):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    loss_fn = torch.nn.CrossEntropyLoss()
    it = FrameworkIterator(AugmentPipeline(source, batch, (3, 224, 224)))
    for images, labels in it:
        loss = loss_fn(model(images), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    torch.cuda.synchronize()
    return model
