from collections import deque
from dataclasses import dataclass
from typing import Deque, List, Optional

import torch


class TokenToKVPool:
    def __init__(self, size: int, layers: int, dim: int):
        self.buffers = [
            torch.zeros(size, dim, dtype=torch.bfloat16, device="cuda") for _ in range(layers)
        ]
        self.free_slots: Deque[int] = deque(range(size))

    def alloc(self, n: int) -> List[int]:
        return [self.free_slots.popleft() for _ in range(n)]

    def free(self, slots: List[int]) -> None:
        self.free_slots.extendleft(reversed(slots))


@dataclass
class HostNode:
    key: int
    host: List[torch.Tensor]


class EICCacheController:
    def __init__(self, pool: TokenToKVPool):
        self.pool = pool
        self.write_stream = torch.cuda.Stream()
        self.producer_stream: Optional[torch.cuda.Stream] = None
        self.last_write_finish_event = torch.cuda.Event()
        self.nodes: List[HostNode] = []

    def write_back(self, key: int, slots: List[int]) -> None:
        index = torch.tensor(slots, device="cuda")
        if self.producer_stream is not None:
            self.write_stream.wait_stream(self.producer_stream)
        self.write_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.write_stream):
            host = []
            for buf in self.pool.buffers:
                staged = torch.empty(len(slots), buf.size(1), dtype=buf.dtype, pin_memory=True)
                staged.copy_(buf[index], non_blocking=True)
                host.append(staged)
        index.record_stream(self.write_stream)
        self.nodes.append(HostNode(key, host))
        self.pool.free(slots)


class Scheduler:
    def __init__(self, model, pool: TokenToKVPool, max_resident: int):
        self.model = model
        self.pool = pool
        self.max_resident = max_resident
        self.forward_stream = torch.cuda.Stream()
        self.tree_cache = EICCacheController(pool)
        self.tree_cache.producer_stream = self.forward_stream
        self.resident: Deque[tuple] = deque()

    def _evict(self) -> None:
        while len(self.resident) > self.max_resident:
            key, slots = self.resident.popleft()
            self.tree_cache.write_back(key, slots)

    def run_batch(self, key: int, hidden: torch.Tensor) -> torch.Tensor:
        self._evict()
        slots = self.pool.alloc(hidden.size(0))
        index = torch.tensor(slots, device="cuda")
        current = torch.cuda.current_stream()
        self.forward_stream.wait_stream(current)
        self.forward_stream.wait_event(self.tree_cache.last_write_finish_event)
        with torch.cuda.stream(self.forward_stream):
            out = hidden
            for layer, buf in zip(self.model, self.pool.buffers):
                buf.index_copy_(0, index, out.to(buf.dtype))
                out = layer(out)
        index.record_stream(self.forward_stream)
        hidden.record_stream(self.forward_stream)
        current.wait_stream(self.forward_stream)
        out.record_stream(current)
        self.resident.append((key, slots))
        return out
