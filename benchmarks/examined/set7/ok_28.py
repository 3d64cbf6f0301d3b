from collections import deque
from dataclasses import dataclass
from typing import Deque, Dict, List, Set, Tuple

import numpy as np
import torch


@dataclass
class Transfer:
    job_id: int
    stream: torch.cuda.Stream
    end_event: torch.cuda.Event
    index: torch.Tensor


class SingleDirectionOffloadingHandler:
    """Copies KV blocks between device and pinned host tensors; every job has its own stream."""

    def __init__(self, src: List[torch.Tensor], dst: List[torch.Tensor], gpu_to_cpu: bool):
        self.src = src
        self.dst = dst
        self.gpu_to_cpu = gpu_to_cpu
        self.device = (src if gpu_to_cpu else dst)[0].device
        self._transfers: Deque[Transfer] = deque()
        self._stream_pool: List[torch.cuda.Stream] = []
        self._event_pool: List[torch.cuda.Event] = []

    def transfer_async(self, job_id: int, src_blocks: np.ndarray, dst_blocks: np.ndarray) -> None:
        stream = self._stream_pool.pop() if self._stream_pool else torch.cuda.Stream(self.device)
        event = self._event_pool.pop() if self._event_pool else torch.cuda.Event()
        pairs = torch.from_numpy(np.stack([src_blocks, dst_blocks]))

        stream.wait_stream(torch.cuda.current_stream(self.device))
        if self._transfers:
            stream.wait_event(self._transfers[-1].end_event)
        with torch.cuda.stream(stream):
            for s, d in zip(self.src, self.dst):
                for a, b in pairs.t().tolist():
                    d[b].copy_(s[a], non_blocking=True)
            event.record(stream)
        self._transfers.append(Transfer(job_id, stream, event, pairs))

    def get_finished(self) -> List[int]:
        finished = []
        while self._transfers and self._transfers[0].end_event.query():
            t = self._transfers.popleft()
            self._stream_pool.append(t.stream)
            self._event_pool.append(t.end_event)
            finished.append(t.job_id)
        return finished

    def wait(self, job_ids: Set[int]) -> None:
        for t in self._transfers:
            if t.job_id in job_ids:
                t.end_event.synchronize()


class OffloadingWorker:
    def __init__(self, gpu: List[torch.Tensor], num_cpu_blocks: int):
        self.cpu = [
            torch.zeros((num_cpu_blocks, *t.shape[1:]), dtype=t.dtype, pin_memory=True) for t in gpu
        ]
        self.store_handler = SingleDirectionOffloadingHandler(gpu, self.cpu, gpu_to_cpu=True)
        self.load_handler = SingleDirectionOffloadingHandler(self.cpu, gpu, gpu_to_cpu=False)
        self.ready: Dict[int, Tuple[int, ...]] = {}
        self._cpu_of_job: Dict[int, Tuple[int, ...]] = {}

    def store(self, job_id: int, gpu_blocks: np.ndarray, cpu_blocks: np.ndarray) -> None:
        self._cpu_of_job[job_id] = tuple(cpu_blocks.tolist())
        self.store_handler.transfer_async(job_id, gpu_blocks, cpu_blocks)

    def load(self, job_id: int, stored_job_id: int, gpu_blocks: np.ndarray) -> None:
        cpu_blocks = np.asarray(self.ready[stored_job_id])
        self.load_handler.transfer_async(job_id, cpu_blocks, gpu_blocks)
        self.load_handler.wait({job_id})

    def poll(self) -> None:
        for job_id in self.store_handler.get_finished():
            self.ready[job_id] = self._cpu_of_job.pop(job_id)
        self.load_handler.get_finished()

    def read_host(self, job_id: int) -> List[np.ndarray]:
        blocks = list(self.ready[job_id])
        return [t[blocks].float().numpy() for t in self.cpu]
