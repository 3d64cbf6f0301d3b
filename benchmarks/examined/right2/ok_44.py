from collections import deque
from dataclasses import dataclass

import torch


@dataclass
class Transfer:
    job_id: int
    stream: torch.cuda.Stream
    event: torch.cuda.Event


class OffloadingHandler:
    """Copies KV blocks between tiers, one pooled stream per transfer."""

    def __init__(self, src: torch.Tensor, dst: torch.Tensor):
        self.src, self.dst = src, dst
        self._transfers: deque = deque()
        self._stream_pool: list = []
        self._event_pool: list = []

    def transfer_async(self, job_id: int, src_blocks: list, dst_blocks: list) -> None:
        stream = self._stream_pool.pop() if self._stream_pool else torch.cuda.Stream()
        event = self._event_pool.pop() if self._event_pool else torch.cuda.Event()
        stream.wait_stream(torch.cuda.current_stream())
        if self._transfers:
            stream.wait_event(self._transfers[-1].event)
        with torch.cuda.stream(stream):
            for s, d in zip(src_blocks, dst_blocks):
                self.dst[d].copy_(self.src[s], non_blocking=True)
            event.record(stream)
        self._transfers.append(Transfer(job_id, stream, event))

    def get_finished(self) -> list:
        finished = []
        while self._transfers and self._transfers[0].event.query():
            transfer = self._transfers.popleft()
            finished.append(transfer.job_id)
            self._stream_pool.append(transfer.stream)
            self._event_pool.append(transfer.event)
        return finished


class TieredScheduler:
    """Requests are parked on the host and run again once they are back."""

    def __init__(self, num_gpu: int, num_cpu: int, block_shape: tuple):
        self.gpu = torch.zeros(num_gpu, *block_shape, device="cuda")
        self.cpu = torch.zeros(num_cpu, *block_shape, pin_memory=True)
        self.store = OffloadingHandler(self.gpu, self.cpu)
        self.load = OffloadingHandler(self.cpu, self.gpu)
        self.free = list(range(num_gpu))
        self.cpu_next = 0
        self.storing: dict = {}
        self.loading: dict = {}
        self.parked: dict = {}
        self.running: dict = {}

    def admit(self, req: int, blocks: int, value: torch.Tensor) -> bool:
        if len(self.free) < blocks:
            return False
        taken = [self.free.pop() for _ in range(blocks)]
        for block in taken:
            self.gpu[block].copy_(value)
        self.running[req] = taken
        return True

    def preempt(self, req: int) -> None:
        gpu_blocks = self.running.pop(req)
        cpu_blocks = list(range(self.cpu_next, self.cpu_next + len(gpu_blocks)))
        self.cpu_next += len(gpu_blocks)
        self.storing[req] = (gpu_blocks, cpu_blocks)
        self.store.transfer_async(req, gpu_blocks, cpu_blocks)

    def resume(self, req: int) -> bool:
        if req not in self.parked or len(self.free) < len(self.parked[req]):
            return False
        cpu_blocks = self.parked.pop(req)
        gpu_blocks = [self.free.pop() for _ in cpu_blocks]
        self.loading[req] = gpu_blocks
        self.load.transfer_async(req, cpu_blocks, gpu_blocks)
        return True

    def poll(self) -> None:
        for req in self.store.get_finished():
            gpu_blocks, cpu_blocks = self.storing.pop(req)
            self.free.extend(gpu_blocks)
            self.parked[req] = cpu_blocks
        for req in self.load.get_finished():
            self.running[req] = self.loading.pop(req)

    def step(self, model) -> dict:
        self.poll()
        out = {req: model(self.gpu[blocks]) for req, blocks in self.running.items()}
        return {req: value.mean().item() for req, value in out.items()}
