"""Paged cache with write back to host memory."""
from collections import deque
from dataclasses import dataclass

import torch


@dataclass
class Retired:
    blocks: list
    event: torch.cuda.Event


class BlockAllocator:
    def __init__(self, n_blocks):
        self.free = list(range(n_blocks))
        self.retired = deque()

    def retire(self, blocks, event):
        self.retired.append(Retired(list(blocks), event))

    def _reap(self):
        while self.retired and self.retired[0].event.query():
            self.free.extend(self.retired.popleft().blocks)

    def alloc(self, n):
        self._reap()
        while len(self.free) < n:
            if not self.retired:
                raise MemoryError("paged cache exhausted")
            self.retired[0].event.synchronize()
            self._reap()
        taken = self.free[-n:]
        del self.free[-n:]
        return taken


class HostStore:
    """Pages in host memory."""

    def __init__(self):
        self.pages = {}

    def put(self, key, host, event):
        self.pages[key] = (host, event)

    def get(self, key):
        host, event = self.pages[key]
        event.synchronize()
        return host


class WriteBackCache:
    def __init__(self, n_blocks=64, tokens=16, width=1024, device="cuda:0"):
        self.device = torch.device(device)
        self.data = torch.zeros((n_blocks, tokens, width), dtype=torch.half, device=self.device)
        self.allocator = BlockAllocator(n_blocks)
        self.store = HostStore()
        self.out = torch.cuda.Stream(self.device)
        self.owned = {}

    def append(self, key, values):
        blocks = self.allocator.alloc(values.shape[0])
        index = torch.tensor(blocks, device=self.device)
        self.data.index_copy_(0, index, values)
        self.owned.setdefault(key, []).extend(blocks)

    def attend(self, key, query):
        index = torch.tensor(self.owned[key], device=self.device)
        kv = self.data[index].flatten(0, 1)
        return torch.softmax(query @ kv.t() / kv.shape[-1] ** 0.5, dim=-1) @ kv

    def evict(self, key):
        blocks = self.owned.pop(key)
        self.out.wait_stream(torch.cuda.current_stream(self.device))
        host = torch.empty((len(blocks), *self.data.shape[1:]), dtype=torch.half, pin_memory=True)
        with torch.cuda.stream(self.out):
            for n, block in enumerate(blocks):
                host[n].copy_(self.data[block], non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        self.store.put(key, host, event)
        self.allocator.retire(blocks, event)


def serve(requests=32, chunks=4):
    cache = WriteBackCache()
    results = []
    for key in range(requests):
        for _ in range(chunks):
            cache.append(key, torch.randn(4, 16, 1024, device=cache.device).half())
        results.append(cache.attend(key, torch.randn(8, 1024, device=cache.device).half()))
        cache.evict(key)
    pages = sum(float(cache.store.get(k).float().abs().mean()) for k in range(requests))
    return torch.stack(results).float().mean().item(), pages
