from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Dict, List, Optional

import numpy as np
import torch


@dataclass
class CachedRequestState:
    req_id: str
    prompt_token_ids: List[int]
    temperature: float
    top_p: float
    num_computed_tokens: int = 0


@dataclass
class SchedulerOutput:
    new_reqs: List[CachedRequestState] = field(default_factory=list)
    finished_req_ids: List[str] = field(default_factory=list)
    num_scheduled_tokens: Dict[str, int] = field(default_factory=dict)


class InputBatch:
    def __init__(self, max_num_reqs: int, device: torch.device):
        self.max_num_reqs = max_num_reqs
        self.req_ids: List[str] = []
        self.req_id_to_index: Dict[str, int] = {}
        self.temperature = torch.empty(max_num_reqs, dtype=torch.float32, device=device)
        self.temperature_cpu_tensor = torch.empty(max_num_reqs, dtype=torch.float32, pin_memory=True)
        self.temperature_cpu = self.temperature_cpu_tensor.numpy()
        self.top_p = torch.empty(max_num_reqs, dtype=torch.float32, device=device)
        self.top_p_cpu_tensor = torch.empty(max_num_reqs, dtype=torch.float32, pin_memory=True)
        self.top_p_cpu = self.top_p_cpu_tensor.numpy()

    def add_request(self, req: CachedRequestState) -> None:
        idx = len(self.req_ids)
        self.req_ids.append(req.req_id)
        self.req_id_to_index[req.req_id] = idx
        self.temperature_cpu[idx] = req.temperature
        self.top_p_cpu[idx] = req.top_p

    def remove_request(self, req_id: str) -> None:
        idx = self.req_id_to_index.pop(req_id)
        last = len(self.req_ids) - 1
        if idx != last:
            moved = self.req_ids[last]
            self.req_ids[idx] = moved
            self.req_id_to_index[moved] = idx
            self.temperature_cpu[idx] = self.temperature_cpu[last]
            self.top_p_cpu[idx] = self.top_p_cpu[last]
        self.req_ids.pop()

    def refresh_sampling_metadata(self) -> None:
        n = len(self.req_ids)
        self.temperature[:n].copy_(self.temperature_cpu_tensor[:n], non_blocking=True)
        self.top_p[:n].copy_(self.top_p_cpu_tensor[:n], non_blocking=True)


class GPUModelRunner:
    def __init__(self, model, sampler, max_num_reqs: int, max_num_tokens: int, device: torch.device):
        self.model = model
        self.sampler = sampler
        self.device = device
        self.requests: Dict[str, CachedRequestState] = {}
        self.input_batch = InputBatch(max_num_reqs, device)
        self.positions_cpu = torch.zeros(max_num_tokens, dtype=torch.int64, pin_memory=True)
        self.positions_np = self.positions_cpu.numpy()
        self.positions = torch.zeros(max_num_tokens, dtype=torch.int64, device=device)
        self.prepare_inputs_event = torch.cuda.Event()
        self.prepare_inputs_event.record(torch.cuda.current_stream(device))

    @contextmanager
    def synchronize_input_prep(self):
        self.prepare_inputs_event.synchronize()
        try:
            yield
        finally:
            self.prepare_inputs_event.record()

    def _update_states(self, scheduler_output: SchedulerOutput) -> None:
        for req_id in scheduler_output.finished_req_ids:
            self.requests.pop(req_id, None)
            self.input_batch.remove_request(req_id)
        for req in scheduler_output.new_reqs:
            self.requests[req.req_id] = req
            self.input_batch.add_request(req)
        self.input_batch.refresh_sampling_metadata()

    def _prepare_inputs(self, scheduler_output: SchedulerOutput) -> int:
        start = 0
        for req_id in self.input_batch.req_ids:
            n = scheduler_output.num_scheduled_tokens[req_id]
            req = self.requests[req_id]
            self.positions_np[start:start + n] = np.arange(
                req.num_computed_tokens, req.num_computed_tokens + n
            )
            req.num_computed_tokens += n
            start += n
        self.positions[:start].copy_(self.positions_cpu[:start], non_blocking=True)
        return start

    @torch.inference_mode()
    def execute_model(self, scheduler_output: SchedulerOutput) -> torch.Tensor:
        with self.synchronize_input_prep():
            self._update_states(scheduler_output)
            num_tokens = self._prepare_inputs(scheduler_output)
        hidden = self.model(self.positions[:num_tokens])
        n = len(self.input_batch.req_ids)
        return self.sampler(hidden, self.input_batch.temperature[:n], self.input_batch.top_p[:n])
