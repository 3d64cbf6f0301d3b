from typing import List, Optional

import numpy as np
import torch


class CpuGpuBuffer:
    def __init__(self, *size: int, dtype: torch.dtype, device: torch.device, pin_memory: bool = True):
        self.cpu = torch.zeros(*size, dtype=dtype, device="cpu", pin_memory=pin_memory)
        self.gpu = torch.zeros_like(self.cpu, device=device)
        self.np: np.ndarray = self.cpu.numpy()

    def copy_to_gpu(self, n: Optional[int] = None) -> torch.Tensor:
        if n is None:
            return self.gpu.copy_(self.cpu, non_blocking=True)
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


class HybridInputBatch:
    def __init__(self, max_num_reqs: int):
        self.num_reqs = 0
        self.num_accepted_tokens_cpu_tensor = torch.ones(
            max_num_reqs, dtype=torch.int64, device="cpu", pin_memory=True
        )
        self.num_accepted_tokens_cpu = self.num_accepted_tokens_cpu_tensor.numpy()


class GDNAttentionMetadata:
    def __init__(self, num_accepted_tokens: torch.Tensor, state_indices: torch.Tensor):
        self.num_accepted_tokens = num_accepted_tokens
        self.state_indices = state_indices


class SpecDecodeModelRunner:
    def __init__(self, model, rejection_sampler, drafter, max_num_reqs: int, num_spec: int,
                 device: torch.device):
        self.model = model
        self.rejection_sampler = rejection_sampler
        self.drafter = drafter
        self.num_spec = num_spec
        self.device = device
        self.input_batch = HybridInputBatch(max_num_reqs)
        self.num_accepted_tokens = CpuGpuBuffer(max_num_reqs, dtype=torch.int64, device=device)
        self.state_indices = torch.arange(max_num_reqs, device=device)
        self.draft_token_ids: Optional[torch.Tensor] = None

    def _update_states_after_model_execute(self, output_token_ids: torch.Tensor) -> None:
        pad = torch.full((output_token_ids.size(0), 1), -1, device=output_token_ids.device)
        num_accepted = (
            (torch.cat([output_token_ids, pad], dim=1) == -1).int().argmax(-1)
        )
        n = num_accepted.numel()
        self.input_batch.num_accepted_tokens_cpu_tensor[:n].copy_(
            num_accepted, non_blocking=True
        )

    def _build_attention_metadata(self, num_reqs: int) -> GDNAttentionMetadata:
        self.num_accepted_tokens.np[:num_reqs] = (
            self.input_batch.num_accepted_tokens_cpu[:num_reqs]
        )
        self.num_accepted_tokens.np[num_reqs:].fill(1)
        self.num_accepted_tokens.copy_to_gpu()
        return GDNAttentionMetadata(
            self.num_accepted_tokens.gpu[:num_reqs], self.state_indices[:num_reqs]
        )

    @torch.inference_mode()
    def execute_model(self, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        num_reqs = self.input_batch.num_reqs
        attn_metadata = self._build_attention_metadata(num_reqs)
        hidden = self.model(input_ids, positions, attn_metadata)
        output_token_ids = self.rejection_sampler(hidden, self.draft_token_ids)
        self._update_states_after_model_execute(output_token_ids)
        self.draft_token_ids = self.drafter.propose(hidden, output_token_ids, self.num_spec)
        return output_token_ids


class AsyncOutput:
    def __init__(self, output_token_ids: torch.Tensor, copy_stream: torch.cuda.Stream):
        default_stream = torch.cuda.current_stream()
        self._device_ids = output_token_ids
        self._event = torch.cuda.Event()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(default_stream)
            self._cpu_ids = output_token_ids.to("cpu", non_blocking=True)
            self._event.record(copy_stream)

    def get_output(self) -> List[List[int]]:
        self._event.synchronize()
        del self._device_ids
        return [[t for t in row if t != -1] for row in self._cpu_ids.tolist()]


def run_async(runner: SpecDecodeModelRunner, batches, copy_stream: torch.cuda.Stream):
    pending: Optional[AsyncOutput] = None
    for input_ids, positions in batches:
        out = AsyncOutput(runner.execute_model(input_ids, positions), copy_stream)
        if pending is not None:
            yield pending.get_output()
        pending = out
    if pending is not None:
        yield pending.get_output()
