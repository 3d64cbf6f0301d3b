"""GPU to CPU offloading of paged KV cache blocks."""

from collections import deque
from dataclasses import dataclass

import torch


@dataclass
class Transfer:
    job_id: int
    stream: torch.cuda.Stream
    event: torch.cuda.Event


class GpuToCpuHandler:
    def __init__(self, gpu_caches: list[torch.Tensor], num_cpu_blocks: int):
        self.src_tensors = gpu_caches
        self.dst_tensors = [
            torch.zeros(
                (num_cpu_blocks, *cache.shape[1:]),
                dtype=cache.dtype,
                device="cpu",
                pin_memory=True,
            )
            for cache in gpu_caches
        ]
        self._transfers: deque[Transfer] = deque()
        self._stream_pool: list[torch.cuda.Stream] = []
        self._event_pool: list[torch.cuda.Event] = []

    def transfer_async(self, job_id: int, src_blocks: list[int], dst_blocks: list[int]) -> bool:
        stream = self._stream_pool.pop() if self._stream_pool else torch.cuda.Stream()
        event = self._event_pool.pop() if self._event_pool else torch.cuda.Event()
        if self._transfers:
            stream.wait_event(self._transfers[-1].event)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for src, dst in zip(self.src_tensors, self.dst_tensors):
                for src_block, dst_block in zip(src_blocks, dst_blocks):
                    dst[dst_block].copy_(src[src_block], non_blocking=True)
            event.record(stream)
        self._transfers.append(Transfer(job_id, stream, event))
        return True

    def get_finished(self) -> list[int]:
        finished = []
        while self._transfers and self._transfers[0].event.query():
            transfer = self._transfers.popleft()
            self._stream_pool.append(transfer.stream)
            self._event_pool.append(transfer.event)
            finished.append(transfer.job_id)
        return finished


class OffloadingConnectorWorker:
    def __init__(self, kv_caches: dict[str, torch.Tensor], num_cpu_blocks: int):
        self.kv_caches = kv_caches
        self.handler = GpuToCpuHandler(list(kv_caches.values()), num_cpu_blocks)
        self._pending: dict[int, list[int]] = {}

    def save_kv_layer(self, layer_name: str, block_ids: torch.Tensor, kv: torch.Tensor) -> None:
        self.kv_caches[layer_name].index_copy_(0, block_ids, kv)

    def wait_for_save(self, job_id: int, src_blocks: list[int], dst_blocks: list[int]) -> None:
        self._pending[job_id] = src_blocks
        self.handler.transfer_async(job_id, src_blocks, dst_blocks)

    def get_finished_blocks(self) -> list[int]:
        freed: list[int] = []
        for job_id in self.handler.get_finished():
            freed.extend(self._pending.pop(job_id))
        return freed
