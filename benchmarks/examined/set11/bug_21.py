"""Worker side of asynchronous scheduling: input preparation with buffers that are reused every step."""
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import numpy as np
import torch


class CpuGpuBuffer:
    def __init__(self, *size: int, dtype: torch.dtype, device: torch.device):
        self.cpu = torch.zeros(*size, dtype=dtype, pin_memory=True)
        self.gpu = torch.zeros(*size, dtype=dtype, device=device)
        self.np = self.cpu.numpy()

    def copy_to_gpu(self, n: Optional[int] = None) -> torch.Tensor:
        if n is None:
            return self.gpu.copy_(self.cpu, non_blocking=True)
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


@dataclass
class SchedulerOutput:
    num_scheduled_tokens: Dict[str, int]
    token_ids: Dict[str, np.ndarray]
    mm_spans: Dict[str, List[Tuple[int, int, str]]]


class AsyncOutput:
    def __init__(self, sampled: torch.Tensor, copy_stream: torch.cuda.Stream):
        self._sampled = sampled
        copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copy_stream):
            self._cpu = sampled.to("cpu", non_blocking=True)
            self._ready = copy_stream.record_event()

    def get_output(self) -> List[int]:
        self._ready.synchronize()
        return self._cpu.tolist()


class GPUModelRunner:
    def __init__(self, model, max_num_tokens: int, device: torch.device):
        self.model = model
        self.device = device
        self.input_ids = CpuGpuBuffer(max_num_tokens, dtype=torch.int64, device=device)
        self.is_mm_embed = CpuGpuBuffer(max_num_tokens, dtype=torch.bool, device=device)
        self.encoder_cache: Dict[str, torch.Tensor] = {}
        self.prepare_inputs_event = torch.cuda.Event()
        self.prepare_inputs_event.record()
        self.async_output_copy_stream = torch.cuda.Stream(device)

    @contextmanager
    def synchronize_input_prep(self):
        # the previous step may still be copying from the cpu buffers
        self.prepare_inputs_event.synchronize()
        try:
            yield
        finally:
            self.prepare_inputs_event.record()

    def _prepare_inputs(self, output: SchedulerOutput) -> int:
        start = 0
        for req_id, n in output.num_scheduled_tokens.items():
            self.input_ids.np[start : start + n] = output.token_ids[req_id]
            start += n
        self.input_ids.copy_to_gpu(start)
        return start

    def _gather_mm_embeddings(self, output: SchedulerOutput, num_tokens: int):
        mm_embeds: List[torch.Tensor] = []
        is_mm_embed = self.is_mm_embed.cpu
        is_mm_embed[:num_tokens] = False
        start = 0
        for req_id, n in output.num_scheduled_tokens.items():
            for begin, end, mm_hash in output.mm_spans.get(req_id, []):
                mm_embeds.append(self.encoder_cache[mm_hash])
                is_mm_embed[start + begin : start + end] = True
            start += n
        return mm_embeds, self.is_mm_embed.copy_to_gpu(num_tokens)

    @torch.inference_mode()
    def execute_model(self, output: SchedulerOutput) -> AsyncOutput:
        with self.synchronize_input_prep():
            num_tokens = self._prepare_inputs(output)

        mm_embeds, is_mm_embed = self._gather_mm_embeddings(output, num_tokens)
        inputs_embeds = self.model.embed_input_ids(self.input_ids.gpu[:num_tokens])
        if mm_embeds:
            inputs_embeds.masked_scatter_(is_mm_embed.unsqueeze(-1), torch.cat(mm_embeds))
        logits = self.model(inputs_embeds)
        return AsyncOutput(logits.argmax(dim=-1), self.async_output_copy_stream)
