"""Decode-side KV offload: finished prefixes go to a host pool, device slots back to the allocator."""
from collections import deque
from dataclasses import dataclass, field

import torch


class SlotAllocator:
    def __init__(self, size, device):
        self.device = device
        self._free = deque(range(size))

    def alloc(self, n):
        if n > len(self._free):
            return None
        return torch.tensor([self._free.popleft() for _ in range(n)], device=self.device)

    def free(self, slots):
        self._free.extendleft(reversed(slots))


@dataclass
class Request:
    rid: int
    slots: list = field(default_factory=list)
    offloaded: int = 0


class HostPool:
    def __init__(self, size, width):
        self.data = torch.empty(size, width, dtype=torch.float16, pin_memory=True)
        self.used = 0

    def reserve(self, n):
        start, self.used = self.used, self.used + n
        return self.data[start : start + n]


class OffloadManager:
    """Writes KV rows to the host pool on a write stream and tracks acknowledgements."""

    def __init__(self, kv_pool, allocator, host_pool, stride=64):
        self.kv_pool = kv_pool
        self.allocator = allocator
        self.host_pool = host_pool
        self.stride = stride
        self.write_stream = torch.cuda.Stream(kv_pool.device)
        self.acks = deque()

    def offload(self, req, final=False):
        pending = len(req.slots) - req.offloaded
        if pending == 0 or (pending < self.stride and not final):
            return
        rows = req.slots[req.offloaded :]
        req.offloaded = len(req.slots)
        dst = self.host_pool.reserve(len(rows))
        self.write_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.write_stream):
            for i, row in enumerate(rows):
                dst[i].copy_(self.kv_pool[row], non_blocking=True)
            self.acks.append((self.write_stream.record_event(), req.rid, len(rows)))

    def poll(self):
        done = []
        while self.acks and self.acks[0][0].query():
            _, rid, count = self.acks.popleft()
            done.append((rid, count))
        return done

    def finish(self, req):
        self.offload(req, final=True)
        self.allocator.free(req.slots)
        req.slots = []


class DecodeWorker:
    def __init__(self, slots=8192, width=4096, device="cuda"):
        self.kv_pool = torch.zeros(slots, width, dtype=torch.float16, device=device)
        self.allocator = SlotAllocator(slots, device)
        self.manager = OffloadManager(self.kv_pool, self.allocator, HostPool(65536, width))
        self.proj = torch.nn.Linear(width, width, bias=False).half().to(device)

    @torch.inference_mode()
    def extend(self, req, hidden):
        slots = self.allocator.alloc(hidden.shape[0])
        if slots is None:
            raise MemoryError("KV pool exhausted")
        self.kv_pool.index_copy_(0, slots, self.proj(hidden))
        req.slots.extend(slots.tolist())
        self.manager.offload(req)

    def run(self, workload):
        finished = []
        for rid, chunks in workload:
            req = Request(rid)
            for hidden in chunks:
                self.extend(req, hidden)
            self.manager.finish(req)
            finished.extend(self.manager.poll())
        torch.cuda.synchronize()
        finished.extend(self.manager.poll())
        return finished
