"""Image loader with a decoding thread and a ring of page locked batches."""
import queue
import threading

import numpy as np
import torch


class DecodedBatch:
    def __init__(self, slot, images, labels):
        self.slot, self.images, self.labels = slot, images, labels


class EpochThread(threading.Thread):
    """Decodes into the slots which the consumer has handed back."""

    def __init__(self, loader, order):
        super().__init__(daemon=True)
        self.loader, self.order = loader, order

    def run(self):
        bs = self.loader.batch_size
        for start in range(0, len(self.order) - bs + 1, bs):
            slot = self.loader.free_slots.get()
            images = self.loader.host_images[slot]
            labels = self.loader.host_labels[slot]
            ids = self.order[start : start + bs]
            np.take(self.loader.store_images, ids, axis=0, out=images.numpy())
            np.take(self.loader.store_labels, ids, axis=0, out=labels.numpy())
            self.loader.ready.put(DecodedBatch(slot, images, labels))
        self.loader.ready.put(None)


class Loader:
    def __init__(self, images, labels, batch_size, device="cuda:0", slots=3, non_blocking=True):
        self.store_images, self.store_labels = images, labels
        self.batch_size = batch_size
        self.device = torch.device(device)
        self.non_blocking = non_blocking
        shape = (batch_size, *images.shape[1:])
        self.host_images = [torch.empty(shape, dtype=torch.uint8, pin_memory=True) for _ in range(slots)]
        self.host_labels = [torch.empty(batch_size, dtype=torch.int64, pin_memory=True) for _ in range(slots)]
        self.free_slots = queue.Queue()
        for slot in range(slots):
            self.free_slots.put(slot)
        self.ready = queue.Queue(maxsize=slots)

    def _to_device(self, batch):
        images = batch.images.to(self.device, non_blocking=self.non_blocking)
        labels = batch.labels.to(self.device, non_blocking=self.non_blocking)
        return images, labels

    def __iter__(self):
        order = np.random.permutation(len(self.store_images))
        EpochThread(self, order).start()
        while True:
            batch = self.ready.get()
            if batch is None:
                return
            images, labels = self._to_device(batch)
            self.free_slots.put(batch.slot)
            yield images.float().div_(255.0).permute(0, 3, 1, 2), labels


def train(model, loader, epochs=1, lr=0.1):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    running = torch.zeros((), device=loader.device)
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            running += loss.detach()
    return running.item()
