from collections import deque
from dataclasses import dataclass, field
from typing import Dict, List, Optional

import torch


@dataclass
class Request:
    request_id: int
    prompt_blocks: List[int]
    block_ids: List[int] = field(default_factory=list)
    finished: bool = False


@dataclass
class ScheduledBatch:
    requests: List[Request]
    input_ids: torch.Tensor
    positions: torch.Tensor


@dataclass
class SampleState:
    batch: ScheduledBatch
    host_tokens: torch.Tensor
    sampler_event: torch.cuda.Event


class KVCacheManager:
    def __init__(self, num_blocks: int, block_shape, dtype, device, execution_stream):
        self.pool = torch.zeros((num_blocks, *block_shape), dtype=dtype, device=device)
        self.free_blocks = deque(range(num_blocks))
        self.host_blocks: Dict[int, torch.Tensor] = {}
        self.onboard_stream = torch.cuda.Stream(device)
        self.execution_stream = execution_stream

    def prepare_resources(self, batch: ScheduledBatch, forward_done: torch.cuda.Event) -> None:
        self.onboard_stream.wait_event(forward_done)
        for request in batch.requests:
            if request.block_ids:
                continue
            for block_hash in request.prompt_blocks:
                block_id = self.free_blocks.popleft()
                request.block_ids.append(block_id)
                cached = self.host_blocks.get(block_hash)
                if cached is not None:
                    self._onboard(cached, block_id)
        self.execution_stream.wait_stream(self.onboard_stream)

    def _onboard(self, src: torch.Tensor, block_id: int) -> None:
        with torch.cuda.stream(self.onboard_stream):
            self.pool[block_id].copy_(src, non_blocking=True)

    def free_resources(self, request: Request) -> None:
        self.free_blocks.extend(request.block_ids)
        request.block_ids = []


class PyExecutor:
    def __init__(self, scheduler, model_engine, sampler, num_blocks, block_shape, dtype, device):
        self.scheduler = scheduler
        self.model_engine = model_engine
        self.sampler = sampler
        self.execution_stream = torch.cuda.Stream(device)
        self.kv_cache_manager = KVCacheManager(
            num_blocks, block_shape, dtype, device, self.execution_stream
        )
        self.previous: Optional[SampleState] = None
        self.end_id = 2

    def _forward_step(self, batch: ScheduledBatch) -> SampleState:
        with torch.cuda.stream(self.execution_stream):
            logits = self.model_engine.forward(batch, self.kv_cache_manager.pool)
            tokens = self.sampler.sample(logits)
            host = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True)
            host.copy_(tokens, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.execution_stream)
        return SampleState(batch, host, event)

    def _process_previous_batch(self, state: SampleState) -> None:
        state.sampler_event.synchronize()
        for request, token in zip(state.batch.requests, state.host_tokens.tolist()):
            if token == self.end_id and not request.finished:
                request.finished = True
                self.scheduler.finish(request)
                self.kv_cache_manager.free_resources(request)

    def _executor_loop_overlap(self) -> None:
        while True:
            batch = self.scheduler.schedule()
            if batch is None:
                break
            forward_done = self.execution_stream.record_event()
            self.kv_cache_manager.prepare_resources(batch, forward_done)
            current = self._forward_step(batch)
            if self.previous is not None:
                self._process_previous_batch(self.previous)
            self.previous = current
        if self.previous is not None:
            self._process_previous_batch(self.previous)
