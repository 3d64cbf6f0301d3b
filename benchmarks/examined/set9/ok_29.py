from typing import Dict, List, Optional

import numpy as np
import torch


class CpuGpuBuffer:
    """Buffer with a CPU side that is filled through numpy and a GPU side read by the model."""

    def __init__(self, *size: int, dtype: torch.dtype, device: torch.device, pin_memory: bool = True):
        self.cpu = torch.zeros(*size, dtype=dtype, device="cpu", pin_memory=pin_memory)
        self.gpu = torch.zeros(*size, dtype=dtype, device=device)
        self.np = self.cpu.numpy()

    def copy_to_gpu(self, n: Optional[int] = None) -> torch.Tensor:
        raise NotImplementedError


class SnapshotCpuGpuBuffer(CpuGpuBuffer):
    """Keep each asynchronous H2D source independent of the next CPU update."""

    def copy_to_gpu(self, n: Optional[int] = None) -> torch.Tensor:
        source = self.cpu if n is None else self.cpu[:n]
        target = self.gpu if n is None else self.gpu[:n]
        # Give this copy its own allocation; the pinned host allocator delays
        # recycling that allocation until the asynchronous copy completes.
        snapshot = torch.empty_like(source, pin_memory=source.is_pinned())
        snapshot.copy_(source)
        return target.copy_(snapshot, non_blocking=True)


class InputBatch:
    def __init__(self, max_num_reqs: int):
        self.req_ids: List[str] = []
        self.num_computed = np.zeros(max_num_reqs, dtype=np.int32)

    def update(self, scheduled: Dict[str, int]):
        for req_id in scheduled:
            if req_id not in self.req_ids:
                self.req_ids.append(req_id)
        self.req_ids = [r for r in self.req_ids if r in scheduled]


class NPUModelRunner:
    def __init__(self, model, max_num_reqs: int, max_num_tokens: int, device="cuda"):
        self.model = model
        self.device = torch.device(device)
        self.input_batch = InputBatch(max_num_reqs)
        self.query_start_loc = SnapshotCpuGpuBuffer(max_num_reqs + 1, dtype=torch.int32, device=self.device)
        self.seq_lens = SnapshotCpuGpuBuffer(max_num_reqs, dtype=torch.int32, device=self.device)
        self.positions = SnapshotCpuGpuBuffer(max_num_tokens, dtype=torch.int64, device=self.device)

    def _prepare_inputs(self, scheduled: Dict[str, int]):
        self.input_batch.update(scheduled)
        num_reqs = len(self.input_batch.req_ids)
        counts = np.array([scheduled[r] for r in self.input_batch.req_ids], dtype=np.int32)
        total = int(counts.sum())
        self.query_start_loc.np[0] = 0
        np.cumsum(counts, out=self.query_start_loc.np[1 : num_reqs + 1])
        computed = self.input_batch.num_computed[:num_reqs]
        self.seq_lens.np[:num_reqs] = computed + counts
        starts = np.repeat(self.query_start_loc.np[:num_reqs], counts)
        self.positions.np[:total] = np.arange(total) - starts + np.repeat(computed, counts)
        computed += counts
        return (
            self.query_start_loc.copy_to_gpu(num_reqs + 1),
            self.seq_lens.copy_to_gpu(num_reqs),
            self.positions.copy_to_gpu(total),
        )

    @torch.inference_mode()
    def execute_model(self, scheduled: Dict[str, int], hidden: torch.Tensor):
        query_start_loc, seq_lens, positions = self._prepare_inputs(scheduled)
        return self.model(hidden, positions, query_start_loc, seq_lens)
