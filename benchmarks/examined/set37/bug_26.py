"""Two-level page storage: device slots in front of pinned host slots."""
from collections import OrderedDict
from contextlib import contextmanager

import torch
import torch.nn.functional as F


class StreamPool:
    def __init__(self, device, size=4):
        self._idle = [torch.cuda.Stream(device=device) for _ in range(size)]

    @contextmanager
    def borrow(self):
        stream = self._idle.pop()
        try:
            with torch.cuda.stream(stream):
                yield stream
        finally:
            self._idle.insert(0, stream)


class Slot:
    def __init__(self, index):
        self.index = index
        self.ready_event = None

    def wait_ready(self, stream):
        if self.ready_event is not None:
            stream.wait_event(self.ready_event)


class StorageManager:
    def __init__(self, gpu_slots, host_slots, page_shape, device, dtype=torch.float16):
        self.device = torch.device(device)
        self.gpu = torch.zeros(gpu_slots, *page_shape, dtype=dtype, device=device)
        self.host = torch.zeros(host_slots, *page_shape, dtype=dtype, pin_memory=True)
        self.free_gpu = [Slot(i) for i in range(gpu_slots)]
        self.free_host = [Slot(i) for i in range(host_slots)]
        self.resident = OrderedDict()
        self.offloaded = {}
        self.streams = StreamPool(self.device)

    def _batched_migrate(self, tasks):
        """tasks: (source pool, source slot, destination pool, destination slot)."""
        with self.streams.borrow() as stream:
            for _, src, _, dst in tasks:
                src.wait_ready(stream)
                dst.wait_ready(stream)
            for src_pool, src, dst_pool, dst in tasks:
                dst_pool[dst.index].copy_(src_pool[src.index], non_blocking=True)
            finish = stream.record_event()
        for _, src, _, dst in tasks:
            src.ready_event = finish
            dst.ready_event = finish

    def _evict(self, count, keep):
        tasks = []
        while len(self.free_gpu) + len(tasks) < count:
            page = next(p for p in self.resident if p not in keep)
            slot, host_slot = self.resident.pop(page), self.free_host.pop()
            self.offloaded[page] = host_slot
            tasks.append((self.gpu, slot, self.host, host_slot))
        if tasks:
            self._batched_migrate(tasks)
            self.free_gpu.extend(task[1] for task in tasks)

    def acquire(self, pages):
        """Returns the slots of ``pages``; pages seen for the first time get a free slot."""
        absent = [p for p in pages if p not in self.resident]
        self._evict(len(absent), set(pages))
        tasks = []
        for page in absent:
            slot = self.resident[page] = self.free_gpu.pop()
            host_slot = self.offloaded.pop(page, None)
            if host_slot is not None:
                tasks.append((self.host, host_slot, self.gpu, slot))
        if tasks:
            self._batched_migrate(tasks)
            self.free_host.extend(task[1] for task in tasks)
        for page in pages:
            self.resident.move_to_end(page)
        return [self.resident[p] for p in pages]


class Executor:
    def __init__(self, manager):
        self.manager = manager
        self.execution_stream = torch.cuda.Stream(device=manager.device)

    @torch.inference_mode()
    def forward(self, pages, q, k_new, v_new):
        stream = self.execution_stream
        caller = torch.cuda.current_stream(self.manager.device)
        slots = self.manager.acquire(pages)
        stream.wait_stream(caller)
        with torch.cuda.stream(stream):
            for slot in slots:
                slot.wait_ready(stream)
            tail = self.manager.gpu[slots[-1].index]
            tail[0].copy_(k_new)
            tail[1].copy_(v_new)
            kv = torch.cat([self.manager.gpu[s.index] for s in slots], dim=2)
            out = F.scaled_dot_product_attention(q, kv[0], kv[1])
        caller.wait_stream(stream)
        for tensor in (q, k_new, v_new):
            tensor.record_stream(stream)
        out.record_stream(caller)
        return out


if __name__ == "__main__":
    mgr = StorageManager(32, 256, (2, 16, 256, 128), "cuda")
    torch.cuda.synchronize()
    ex = Executor(mgr)
    new = torch.randn(16, 256, 128, device="cuda", dtype=torch.float16)
    for step in range(64):
        res = ex.forward([(step % 8) * 16 + i for i in range(16)], new, new, new)
    print(res.shape)
