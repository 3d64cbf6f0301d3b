"""Background feature reader that recycles a fixed set of device slots."""
import queue
import threading

import numpy as np
import torch


class Slot:
    def __init__(self, rows, dim, device):
        self.host = torch.empty(rows, dim, pin_memory=True)
        self.dev = torch.empty(rows, dim, device=device)
        self.loaded = torch.cuda.Event()
        self.drained = torch.cuda.Event()


class FeatureReader:
    def __init__(self, path, rows, dim, device="cuda", depth=3):
        self.table = np.load(path, mmap_mode="r")
        self.rows = rows
        self.device = torch.device(device)
        self.free, self.full = queue.Queue(), queue.Queue()
        for _ in range(depth):
            self.free.put(Slot(rows, dim, self.device))
        torch.cuda.current_stream(self.device).synchronize()
        self.worker = None
        self.error = None

    def _produce(self, order):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        try:
            for start in range(0, len(order), self.rows):
                slot = self.free.get()
                index = order[start:start + self.rows]
                slot.loaded.synchronize()
                np.take(self.table, index, axis=0, out=slot.host.numpy()[:len(index)])
                with torch.cuda.stream(stream):
                    stream.wait_event(slot.drained)
                    n = len(index)
                    slot.dev[:n].copy_(slot.host[:n], non_blocking=True)
                    slot.loaded.record(stream)
                self.full.put((slot, n))
        except Exception as exc:
            self.error = exc
        self.full.put(None)

    def iterate(self, order):
        """Yields device blocks; a block is valid until the next one is requested."""
        if self.worker is not None and self.worker.is_alive():
            raise RuntimeError("an epoch is running")
        self.worker = threading.Thread(target=self._produce, args=(order,), daemon=True)
        self.worker.start()
        while True:
            item = self.full.get()
            if item is None:
                break
            slot, n = item
            torch.cuda.current_stream(self.device).wait_event(slot.loaded)
            try:
                yield slot.dev[:n]
            finally:
                slot.drained.record(torch.cuda.current_stream(self.device))
                self.free.put(slot)
        self.worker.join()
        if self.error is not None:
            raise self.error


def covariance(path, dim, rows=65536, epochs=1, seed=0):
    reader = FeatureReader(path, rows, dim)
    count = reader.table.shape[0]
    gram = torch.zeros(dim, dim, device=reader.device)
    total = torch.zeros(dim, device=reader.device)
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        for block in reader.iterate(rng.permutation(count)):
            gram.addmm_(block.t(), block)
            total += block.sum(dim=0)
    mean = total / (count * epochs)
    return (gram / (count * epochs) - torch.outer(mean, mean)).cpu()
