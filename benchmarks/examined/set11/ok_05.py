"""Hierarchical KV cache: restoring prefixes from host memory under overlap scheduling."""
from collections import deque
from dataclasses import dataclass, field
from typing import List, Optional

import torch


@dataclass
class Req:
    rid: str
    host_pages: List[int] = field(default_factory=list)
    device_pages: List[int] = field(default_factory=list)
    finished: bool = False


class HiCacheController:
    def __init__(self, device_kv: torch.Tensor, host_kv: torch.Tensor):
        self.device_kv = device_kv  # [layers, pages, ...]
        self.host_kv = host_kv  # pinned, same layout
        self.load_stream = torch.cuda.Stream()
        self.load_queue: List[tuple] = []
        self.load_fence_stream: Optional[torch.cuda.Stream] = None

    def load(self, host_pages: List[int], device_pages: List[int]) -> None:
        self.load_queue.append((host_pages, device_pages))

    def start_loading(self) -> Optional[torch.cuda.Event]:
        if not self.load_queue:
            return None
        ops, self.load_queue = self.load_queue, []
        start_event = torch.cuda.Event()
        start_event.record()
        if self.load_fence_stream is not None:
            self.load_stream.wait_stream(self.load_fence_stream)
        with torch.cuda.stream(self.load_stream):
            start_event.wait(self.load_stream)
            for host_pages, device_pages in ops:
                for layer in range(self.device_kv.shape[0]):
                    for src, dst in zip(host_pages, device_pages):
                        self.device_kv[layer, dst].copy_(self.host_kv[layer, src], non_blocking=True)
        return self.load_stream.record_event()


class Scheduler:
    def __init__(self, model_runner, controller: HiCacheController, num_pages: int):
        self.model_runner = model_runner
        self.controller = controller
        self.free_pages = deque(range(num_pages))
        self.forward_stream = torch.cuda.Stream()
        self.schedule_stream = torch.cuda.current_stream()
        self.controller.load_fence_stream = self.forward_stream
        self.waiting: deque = deque()
        self.running: List[Req] = []
        self.result_queue: deque = deque()

    def get_next_batch(self):
        while self.waiting and len(self.free_pages) >= len(self.waiting[0].host_pages):
            req = self.waiting.popleft()
            req.device_pages = [self.free_pages.popleft() for _ in req.host_pages]
            self.controller.load(req.host_pages, req.device_pages)
            self.running.append(req)
        batch = self.model_runner.make_batch([r for r in self.running if not r.finished])
        return batch, self.controller.start_loading()

    def run_batch(self, batch, load_done: Optional[torch.cuda.Event]):
        self.forward_stream.wait_stream(self.schedule_stream)
        if load_done is not None:
            self.forward_stream.wait_event(load_done)
        with torch.cuda.stream(self.forward_stream):
            next_ids = self.model_runner.forward(batch, self.controller.device_kv)
            next_ids_cpu = torch.empty(next_ids.shape, dtype=next_ids.dtype, pin_memory=True)
            next_ids_cpu.copy_(next_ids, non_blocking=True)
            copy_done = self.forward_stream.record_event()
        return next_ids, next_ids_cpu, copy_done

    def process_batch_result(self, batch, result) -> None:
        _, next_ids_cpu, copy_done = result
        copy_done.synchronize()
        for req, token in zip(batch.reqs, next_ids_cpu.tolist()):
            if req.finished or token != self.model_runner.eos_id:
                continue
            req.finished = True
            self.free_pages.extend(req.device_pages)

    def event_loop_overlap(self):
        while True:
            batch, load_done = self.get_next_batch()
            self.result_queue.append((batch, self.run_batch(batch, load_done)))
            if len(self.result_queue) > 1:
                self.process_batch_result(*self.result_queue.popleft())
