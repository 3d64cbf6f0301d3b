"""Fixed-slot feeder: host batches go through staging into resident device slots."""
from collections import deque
from contextlib import contextmanager

import numpy as np
import torch


class SlotFeeder:
    def __init__(self, shape, device="cuda", depth=2, dtype=torch.float32):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self.stream):
            self._slots = [torch.empty(shape, dtype=dtype, device=self.device)
                           for _ in range(depth)]
        self._staging = [torch.empty(shape, dtype=dtype, pin_memory=True)
                         for _ in range(depth)]
        self._ready = [torch.cuda.Event() for _ in range(depth)]
        self._released = [torch.cuda.Event() for _ in range(depth)]
        self._free = deque(range(depth))
        self._filled = deque()

    @property
    def full(self):
        return not self._free

    def put(self, array):
        if not self._free:
            raise BufferError("all slots are in use")
        host = torch.from_numpy(np.ascontiguousarray(array))
        index = self._free[0]
        staging = self._staging[index]
        self._ready[index].synchronize()
        staging.copy_(host)
        self._free.popleft()
        self.stream.wait_event(self._released[index])
        with torch.cuda.stream(self.stream):
            self._slots[index].copy_(staging, non_blocking=True)
        self._ready[index].record(self.stream)
        self._filled.append(index)

    @contextmanager
    def borrow(self):
        if not self._filled:
            raise LookupError("nothing was fed")
        index = self._filled.popleft()
        slot = self._slots[index]
        current = torch.cuda.current_stream(self.device)
        current.wait_event(self._ready[index])
        slot.record_stream(current)
        try:
            yield slot
        finally:
            self._released[index].record(current)
            self._free.append(index)


def column_sums(feeder, chunks, width):
    total = torch.zeros(width, device=feeder.device)
    pending = 0
    for chunk in chunks:
        if feeder.full:
            with feeder.borrow() as x:
                total += x.sum(dim=0)
            pending -= 1
        feeder.put(chunk)
        pending += 1
    while pending:
        with feeder.borrow() as x:
            total += x.sum(dim=0)
        pending -= 1
    return total.cpu()


def main():
    rng = np.random.default_rng(0)
    feeder = SlotFeeder((1024, 256))
    scratch = np.empty((1024, 256), dtype=np.float32)

    def chunks():
        for _ in range(20):
            scratch[...] = rng.standard_normal(scratch.shape)
            yield scratch

    print(column_sums(feeder, chunks(), 256).norm())


if __name__ == "__main__":
    main()
