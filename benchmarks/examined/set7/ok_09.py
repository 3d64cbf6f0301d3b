import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Deque, Dict, List, Tuple

import torch


@dataclass
class CacheContext:
    """Server side view of the paged KV cache of one worker process."""

    device: torch.device
    kv_caches: List[torch.Tensor]
    block_size: int
    stream: torch.cuda.Stream = None
    block_ids_buffer: torch.Tensor = None
    exported: Deque[torch.cuda.Event] = field(default_factory=lambda: deque(maxlen=4096))

    def __post_init__(self):
        self.stream = torch.cuda.Stream(self.device)
        self.block_ids_buffer = torch.zeros(8192, dtype=torch.int64, device=self.device)

    def stage_block_ids(self, block_ids: List[int]) -> torch.Tensor:
        ids = torch.tensor(block_ids, dtype=torch.int64, pin_memory=True)
        out = self.block_ids_buffer[: ids.numel()]
        out.copy_(ids, non_blocking=True)
        return out


@dataclass
class MemoryObj:
    layers: List[torch.Tensor] = field(default_factory=list)


class LMCacheDrivenTransferModule:
    def __init__(self):
        self.contexts: Dict[int, CacheContext] = {}
        self.storage: Dict[Tuple[int, Tuple[str, int]], MemoryObj] = {}
        self._lock = threading.Lock()

    def register_kv_cache(self, instance_id: int, kv_caches: List[torch.Tensor], block_size: int):
        self.contexts[instance_id] = CacheContext(kv_caches[0].device, kv_caches, block_size)

    def store(self, instance_id: int, key: Tuple[str, int], block_ids: List[int],
              event_ipc_handle: bytes) -> bytes:
        ctx = self.contexts[instance_id]
        with torch.cuda.device(ctx.device), torch.cuda.stream(ctx.stream):
            event = torch.cuda.Event.from_ipc_handle(ctx.device, event_ipc_handle)
            event.wait(ctx.stream)
            ids = ctx.stage_block_ids(block_ids)
            obj = MemoryObj()
            for kv in ctx.kv_caches:
                blocks = kv.index_select(0, ids)
                host = torch.empty(blocks.shape, dtype=blocks.dtype, pin_memory=True)
                host.copy_(blocks, non_blocking=True)
                obj.layers.append(host)
            done = torch.cuda.Event(interprocess=True)
            done.record(ctx.stream)
            ctx.exported.append(done)
        with self._lock:
            self.storage[(instance_id, key)] = obj
        return done.ipc_handle()

    def retrieve(self, instance_id: int, key: Tuple[str, int], block_ids: List[int],
                 event_ipc_handle: bytes) -> bytes:
        ctx = self.contexts[instance_id]
        with self._lock:
            obj = self.storage[(instance_id, key)]
        with torch.cuda.device(ctx.device), torch.cuda.stream(ctx.stream):
            event = torch.cuda.Event.from_ipc_handle(ctx.device, event_ipc_handle)
            event.wait(ctx.stream)
            ids = ctx.stage_block_ids(block_ids)
            for kv, host in zip(ctx.kv_caches, obj.layers):
                blocks = host.to(ctx.device, non_blocking=True)
                kv.index_copy_(0, ids, blocks)
            done = torch.cuda.Event(interprocess=True)
            done.record(ctx.stream)
            ctx.exported.append(done)
        return done.ipc_handle()


class LMCacheMPWorkerAdapter:
    """Runs in the worker process, before the forward pass of a step."""

    def __init__(self, client, instance_id: int, device: torch.device):
        self.client = client
        self.instance_id = instance_id
        self.device = device
        self._exported = []

    def _export_event(self) -> bytes:
        event = torch.cuda.Event(interprocess=True)
        event.record(torch.cuda.current_stream(self.device))
        self._exported.append(event)
        return event.ipc_handle()

    def start_load_kv(self, requests) -> None:
        for key, block_ids in requests:
            handle = self.client.call("retrieve", self.instance_id, key, block_ids, self._export_event())
            done = torch.cuda.Event.from_ipc_handle(self.device, handle)
            torch.cuda.current_stream(self.device).wait_event(done)

    def wait_for_save(self, requests) -> None:
        for key, block_ids in requests:
            handle = self.client.call("store", self.instance_id, key, block_ids, self._export_event())
            done = torch.cuda.Event.from_ipc_handle(self.device, handle)
            torch.cuda.current_stream(self.device).wait_event(done)
