import queue

import torch


class Page:
    """A pinned image of one flat state vector."""

    def __init__(self, numel, dtype):
        self.host = torch.empty(numel, dtype=dtype, pin_memory=True)
        self.landed = torch.cuda.Event()
        self.step = -1

    def numpy(self):
        self.landed.synchronize()
        return self.host.numpy()


class PagePool:
    def __init__(self, count, numel, dtype=torch.float32):
        self._free = queue.Queue()
        for _ in range(count):
            self._free.put(Page(numel, dtype))

    def acquire(self):
        return self._free.get()

    def release(self, page):
        self._free.put(page)

    @property
    def waiting(self):
        return self._free.qsize()


def pages_for(budget_bytes, numel, itemsize=4, least=1, most=8):
    """How many pages the host memory budget allows."""
    fit = budget_bytes // (numel * itemsize)
    return int(min(most, max(least, fit)))
