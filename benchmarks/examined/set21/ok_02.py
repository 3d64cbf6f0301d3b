from collections import deque
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn


@dataclass
class GenerationBatchResult:
    next_token_ids: torch.Tensor
    logprobs: torch.Tensor
    copy_done: Optional[torch.cuda.Event] = None

    def copy_to_cpu(self, copy_stream: torch.cuda.Stream) -> None:
        self.next_token_ids = _async_d2h(self.next_token_ids, copy_stream)
        self.logprobs = _async_d2h(self.logprobs, copy_stream)
        self.copy_done = torch.cuda.Event()
        self.copy_done.record(copy_stream)


def _async_d2h(t: torch.Tensor, copy_stream: torch.cuda.Stream) -> torch.Tensor:
    dst = torch.empty(t.shape, dtype=t.dtype, device="cpu", pin_memory=True)
    with torch.cuda.stream(copy_stream):
        dst.copy_(t, non_blocking=True)
    t.record_stream(copy_stream)
    return dst


class Scheduler:
    """Overlaps the processing of one step with the forward of the next one."""

    def __init__(self, model: nn.Module, batch_size: int):
        self.model = model.cuda().eval()
        self.schedule_stream = torch.cuda.current_stream()
        self.forward_stream = torch.cuda.Stream()
        self.copy_stream = torch.cuda.Stream()
        self.token_buf = torch.zeros(batch_size, dtype=torch.long, device="cuda")
        self.result_queue = deque()
        self.outputs = []

    def run_batch(self, temperature: torch.Tensor) -> GenerationBatchResult:
        self.forward_stream.wait_stream(self.schedule_stream)
        with torch.cuda.stream(self.forward_stream):
            temperature.record_stream(self.forward_stream)
            logits = self.model(self.token_buf) / temperature.unsqueeze(-1)
            logprobs = torch.log_softmax(logits, dim=-1)
            next_ids = logprobs.argmax(dim=-1)
            self.token_buf.copy_(next_ids)
            chosen = logprobs.gather(1, next_ids.unsqueeze(1)).squeeze(1)
            result = GenerationBatchResult(next_ids, chosen)
        self.copy_stream.wait_stream(self.forward_stream)
        result.copy_to_cpu(self.copy_stream)
        return result

    def process_batch_result(self, result: GenerationBatchResult) -> None:
        result.copy_done.synchronize()
        self.outputs.append((result.next_token_ids.tolist(), result.logprobs.numpy().copy()))

    @torch.inference_mode()
    def event_loop_overlap(self, steps: int):
        for step in range(steps):
            temperature = torch.full((self.token_buf.shape[0],), 1.0 + 0.01 * step, device="cuda")
            self.result_queue.append(self.run_batch(temperature))
            if len(self.result_queue) > 1:
                self.process_batch_result(self.result_queue.popleft())
        while self.result_queue:
            self.process_batch_result(self.result_queue.popleft())
        return self.outputs


def main():
    model = nn.Sequential(nn.Embedding(32000, 1024), nn.Linear(1024, 32000))
    torch.cuda.synchronize()
    return Scheduler(model, 32).event_loop_overlap(128)
