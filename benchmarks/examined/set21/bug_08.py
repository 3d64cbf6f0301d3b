from collections import deque
from dataclasses import dataclass, field
from typing import Dict, List, Tuple

import torch
import torch.nn as nn


@dataclass
class OffloadMetadata:
    store_gpu_blocks: List[int] = field(default_factory=list)
    store_cpu_blocks: List[int] = field(default_factory=list)
    store_event: int = -1


class SimpleCPUOffloadWorker:
    """Stores finished KV blocks in a pinned host pool."""

    def __init__(self, kv_caches: List[torch.Tensor], num_cpu_blocks: int):
        self.gpu_kv_caches = kv_caches
        self.cpu_kv_caches = [
            torch.empty((num_cpu_blocks,) + tuple(c.shape[1:]), dtype=c.dtype, pin_memory=True) for c in kv_caches
        ]
        self.store_stream = torch.cuda.Stream()
        self._store_events: deque = deque()
        self._hwm = -1

    def get_finished(self, metadata: OffloadMetadata) -> int:
        if metadata.store_gpu_blocks:
            self._launch_store(metadata)
        while self._store_events and self._store_events[0][1].query():
            self._hwm = self._store_events.popleft()[0]
        return self._hwm

    def _launch_store(self, metadata: OffloadMetadata) -> None:
        with torch.cuda.stream(self.store_stream):
            for gpu_cache, cpu_cache in zip(self.gpu_kv_caches, self.cpu_kv_caches):
                for src, dst in zip(metadata.store_gpu_blocks, metadata.store_cpu_blocks):
                    cpu_cache[dst].copy_(gpu_cache[src], non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.store_stream)
        self._store_events.append((metadata.store_event, event))


class OffloadScheduler:
    def __init__(self, num_cpu_blocks: int):
        self.next_event = 0
        self.cpu_free = deque(range(num_cpu_blocks))
        self.computed: List[int] = []
        self.inflight: Dict[int, List[Tuple[int, int]]] = {}
        self.index: Dict[int, int] = {}

    def build_metadata(self) -> OffloadMetadata:
        blocks, self.computed = self.computed, []
        pairs = [(b, self.cpu_free.popleft()) for b in blocks if self.cpu_free]
        if not pairs:
            return OffloadMetadata()
        event, self.next_event = self.next_event, self.next_event + 1
        self.inflight[event] = pairs
        return OffloadMetadata([p[0] for p in pairs], [p[1] for p in pairs], event)

    def update(self, hwm: int) -> None:
        for event in [e for e in self.inflight if e <= hwm]:
            for gpu_block, cpu_block in self.inflight.pop(event):
                self.index[gpu_block] = cpu_block


class Engine:
    def __init__(self, num_layers: int = 8, num_blocks: int = 1024, block_size: int = 16, hidden: int = 1024):
        self.block_size = block_size
        self.layers = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(num_layers)]).cuda().half()
        self.kv = [torch.zeros(num_blocks, block_size, hidden, device="cuda", dtype=torch.half) for _ in range(num_layers)]
        torch.cuda.synchronize()
        self.worker = SimpleCPUOffloadWorker(self.kv, num_blocks)
        self.scheduler = OffloadScheduler(num_blocks)

    @torch.inference_mode()
    def step(self, block: int, x: torch.Tensor) -> torch.Tensor:
        metadata = self.scheduler.build_metadata()
        for layer, cache in zip(self.layers, self.kv):
            x = torch.tanh(layer(x))
            cache[block].copy_(x)
        self.scheduler.computed.append(block)
        self.scheduler.update(self.worker.get_finished(metadata))
        return x

    def run(self, steps: int = 512) -> Dict[int, int]:
        x = torch.randn(self.block_size, 1024, device="cuda", dtype=torch.half)
        for block in range(steps):
            x = self.step(block, x)
        torch.cuda.synchronize()
        return self.scheduler.index
