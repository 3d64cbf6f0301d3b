import threading

import torch


class Shelf:
    """LoRA pairs on the GPU; guarded by one lock, found by adapter name."""

    def __init__(self, places, dim, rank):
        self.a = [torch.zeros(dim, rank, device="cuda", dtype=torch.float16) for _ in range(places)]
        self.b = [torch.zeros(rank, dim, device="cuda", dtype=torch.float16) for _ in range(places)]
        self.last_use = [None] * places
        self.where = {}
        self.order = []
        self.lock = threading.Lock()
        torch.cuda.current_stream().synchronize()

    def evict(self):
        """Number of a place that may be written; call with the lock held."""
        if len(self.order) < len(self.a):
            return len(self.order)
        name = self.order.pop(0)
        return self.where.pop(name)

    def publish(self, name, place):
        self.where[name] = place
        self.order.append(name)

    def names(self):
        with self.lock:
            return list(self.order)

    @property
    def full(self):
        return len(self.order) == len(self.a)
