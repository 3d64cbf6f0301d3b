"""Input preparation with reused pinned buffers; the prior step's copies are awaited before they are refilled."""
from contextlib import contextmanager
from typing import Dict, List

import numpy as np
import torch


class CpuGpuBuffer:
    def __init__(self, *size: int, dtype: torch.dtype, device: torch.device):
        self.cpu = torch.zeros(*size, dtype=dtype, pin_memory=True)
        self.gpu = torch.zeros(*size, dtype=dtype, device=device)
        self.np = self.cpu.numpy()

    def copy_to_gpu(self, n: int) -> torch.Tensor:
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


class InputBatch:
    def __init__(self, max_reqs: int, max_tokens: int, device: torch.device):
        self.query_start_loc = CpuGpuBuffer(max_reqs + 1, dtype=torch.int32, device=device)
        self.seq_lens = CpuGpuBuffer(max_reqs, dtype=torch.int32, device=device)
        self.positions = CpuGpuBuffer(max_tokens, dtype=torch.int64, device=device)
        self.input_ids = CpuGpuBuffer(max_tokens, dtype=torch.int64, device=device)


class GPUModelRunner:
    def __init__(self, model, max_reqs: int, max_tokens: int, device: torch.device):
        self.model = model
        self.batch = InputBatch(max_reqs, max_tokens, device)
        self.computed: Dict[str, int] = {}
        self.prepare_inputs_event = torch.cuda.Event()
        self.prepare_inputs_event.record(torch.cuda.current_stream(device))

    @contextmanager
    def synchronize_input_prep(self):
        self.prepare_inputs_event.synchronize()
        try:
            yield
        finally:
            self.prepare_inputs_event.record()

    def _prepare(self, scheduled: Dict[str, List[int]]):
        b, start = self.batch, 0
        b.query_start_loc.np[0] = 0
        for i, (req_id, tokens) in enumerate(scheduled.items()):
            n, done = len(tokens), self.computed.get(req_id, 0)
            b.input_ids.np[start : start + n] = tokens
            b.positions.np[start : start + n] = np.arange(done, done + n)
            b.seq_lens.np[i] = done + n
            start += n
            b.query_start_loc.np[i + 1] = start
            self.computed[req_id] = done + n
        num_reqs = len(scheduled)
        return (
            b.input_ids.copy_to_gpu(start),
            b.positions.copy_to_gpu(start),
            b.query_start_loc.copy_to_gpu(num_reqs + 1),
            b.seq_lens.copy_to_gpu(num_reqs),
        )

    @torch.inference_mode()
    def execute_model(self, scheduled: Dict[str, List[int]]) -> torch.Tensor:
        with self.synchronize_input_prep():
            input_ids, positions, query_start_loc, seq_lens = self._prepare(scheduled)
        hidden = self.model(input_ids, positions, query_start_loc, seq_lens)
        return hidden[query_start_loc[1:].long() - 1].argmax(-1)


def drive(runner: GPUModelRunner, plan) -> List[List[int]]:
    previous, tokens = None, []
    for scheduled in plan:
        current = runner.execute_model(scheduled)
        if previous is not None:
            tokens.append(previous.tolist())
        previous = current
    if previous is not None:
        tokens.append(previous.tolist())
    return tokens
