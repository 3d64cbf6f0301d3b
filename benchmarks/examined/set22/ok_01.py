"""Host staging allocator that recycles page-locked blocks once their last copy has finished."""
import threading
from collections import defaultdict, deque

import numpy as np
import torch


def _round_up(nbytes):
    size = 4096
    while size < nbytes:
        size *= 2
    return size


class HostBlock:
    __slots__ = ("storage", "size", "events")

    def __init__(self, size):
        self.storage = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        self.size = size
        self.events = []

    def view(self, shape, dtype):
        numel = int(np.prod(shape))
        nbytes = numel * torch.empty((), dtype=dtype).element_size()
        return self.storage[:nbytes].view(dtype)[:numel].view(shape)


class PinnedAllocator:
    def __init__(self):
        self._lock = threading.Lock()
        self._free = defaultdict(list)
        self._pending = deque()

    def _process_events(self):
        for _ in range(len(self._pending)):
            block = self._pending.popleft()
            block.events = [e for e in block.events if not e.query()]
            if block.events:
                self._pending.append(block)
            else:
                self._free[block.size].append(block)

    def allocate(self, nbytes):
        size = _round_up(nbytes)
        with self._lock:
            self._process_events()
            if self._free[size]:
                return self._free[size].pop()
        return HostBlock(size)

    def record(self, block, stream):
        event = torch.cuda.Event()
        event.record(stream)
        block.events.append(event)

    def free(self, block):
        with self._lock:
            if block.events:
                self._pending.append(block)
            else:
                self._free[block.size].append(block)


class Uploader:
    def __init__(self, allocator, device):
        self.allocator = allocator
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def upload(self, array):
        src = torch.from_numpy(np.ascontiguousarray(array))
        block = self.allocator.allocate(src.numel() * src.element_size())
        staging = block.view(tuple(src.shape), src.dtype)
        staging.copy_(src)
        out = torch.empty(src.shape, dtype=src.dtype, device=self.device)
        consumer = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(consumer)
        with torch.cuda.stream(self.stream):
            out.copy_(staging, non_blocking=True)
        self.allocator.record(block, self.stream)
        self.allocator.free(block)
        consumer.wait_stream(self.stream)
        return out


def run(batches, model):
    uploader = Uploader(PinnedAllocator(), torch.device("cuda", 0))
    totals = []
    for batch in batches:
        x = uploader.upload(batch)
        totals.append(model(x).sum())
    return torch.stack(totals).cpu()
