from dataclasses import dataclass
from typing import Dict, List, Optional

import numpy as np
import torch
import torch.nn as nn


@dataclass
class PoolingRequest:
    req_id: str
    prompt: np.ndarray
    num_computed_tokens: int = 0


@dataclass
class SchedulerOutput:
    num_scheduled_tokens: Dict[str, int]


class PoolingModelRunner:
    """Runs an embedding model with chunked prefill."""

    def __init__(self, model: nn.Module, max_reqs: int, max_tokens: int, hidden: int):
        self.device = torch.device("cuda")
        self.model = model.to(self.device).eval()
        self.requests: Dict[str, PoolingRequest] = {}
        self.req_order: List[str] = []
        self.num_computed_tokens_cpu_tensor = torch.zeros(max_reqs, dtype=torch.int64, pin_memory=True)
        self.num_computed_tokens_cpu = self.num_computed_tokens_cpu_tensor.numpy()
        self.num_computed_tokens = torch.zeros(max_reqs, dtype=torch.int64, device=self.device)
        self.positions = torch.zeros(max_tokens, dtype=torch.int64, device=self.device)
        self.pooled = torch.zeros(max_reqs, hidden, device=self.device)

    def add_request(self, req: PoolingRequest) -> None:
        self.requests[req.req_id] = req
        self.req_order.append(req.req_id)

    def _update_states(self) -> None:
        for i, req_id in enumerate(self.req_order):
            self.num_computed_tokens_cpu[i] = self.requests[req_id].num_computed_tokens

    def _prepare_inputs(self, out: SchedulerOutput):
        num_reqs = len(self.req_order)
        counts = [out.num_scheduled_tokens[r] for r in self.req_order]
        total = sum(counts)
        req_indices = np.repeat(np.arange(num_reqs), counts)
        arange = np.concatenate([np.arange(c) for c in counts])
        tokens = np.concatenate(
            [self.requests[r].prompt[self.requests[r].num_computed_tokens:][:c] for r, c in zip(self.req_order, counts)]
        )
        req_indices_gpu = torch.from_numpy(req_indices).pin_memory().to(self.device, non_blocking=True)
        arange_gpu = torch.from_numpy(arange).pin_memory().to(self.device, non_blocking=True)
        input_ids = torch.from_numpy(tokens).pin_memory().to(self.device, non_blocking=True)
        self.num_computed_tokens[:num_reqs].copy_(self.num_computed_tokens_cpu_tensor[:num_reqs], non_blocking=True)
        self.positions[:total] = self.num_computed_tokens[req_indices_gpu] + arange_gpu
        return input_ids, self.positions[:total], req_indices_gpu

    @torch.inference_mode()
    def execute_model(self, out: SchedulerOutput) -> Optional[List[List[float]]]:
        self._update_states()
        input_ids, positions, req_indices = self._prepare_inputs(out)
        hidden = self.model(input_ids) * torch.cos(positions.float() * 1e-4).unsqueeze(-1)
        self.pooled.index_add_(0, req_indices, hidden)
        for req_id in self.req_order:
            self.requests[req_id].num_computed_tokens += out.num_scheduled_tokens[req_id]
        finished = all(r.num_computed_tokens >= len(r.prompt) for r in self.requests.values())
        if not finished:
            return None
        return torch.nn.functional.normalize(self.pooled[: len(self.req_order)], dim=-1).tolist()


def embed(prompts: List[np.ndarray], chunk: int = 256):
    runner = PoolingModelRunner(nn.Embedding(32000, 1024), 64, 64 * chunk, 1024)
    for i, prompt in enumerate(prompts):
        runner.add_request(PoolingRequest(f"req-{i}", prompt))
    result = None
    while result is None:
        scheduled = {
            r.req_id: min(chunk, len(r.prompt) - r.num_computed_tokens) for r in runner.requests.values()
        }
        result = runner.execute_model(SchedulerOutput(scheduled))
    return result
