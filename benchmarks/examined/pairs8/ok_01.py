from collections import deque
from dataclasses import dataclass

import torch
import torch.nn as nn


class AsyncSamplerOutput:
    """Sampled tokens of one step, on their way to the host."""

    def __init__(self, req_ids, sampled, copy_stream):
        self.req_ids = req_ids
        self._sampled = sampled
        self._ready = torch.cuda.Event()
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(compute)
            self._tokens_cpu = sampled.to("cpu", non_blocking=True)
            self._ready.record()

    def get(self):
        self._ready.synchronize()
        self._sampled = None
        return dict(zip(self.req_ids, self._tokens_cpu.tolist()))


@dataclass
class SchedulerOutput:
    req_ids: list
    input_ids: torch.Tensor


class ModelRunner:
    def __init__(self, vocab=32000, hidden=512):
        self.embed = nn.Embedding(vocab, hidden, device="cuda")
        self.head = nn.Linear(hidden, vocab, bias=False, device="cuda")
        self.output_copy_stream = torch.cuda.Stream()

    @torch.inference_mode()
    def execute(self, batch: SchedulerOutput) -> AsyncSamplerOutput:
        logits = self.head(self.embed(batch.input_ids))
        sampled = logits.argmax(dim=-1)
        return AsyncSamplerOutput(batch.req_ids, sampled, self.output_copy_stream)


def serve(steps=16, batch_size=8):
    runner = ModelRunner()
    pending = deque()
    history = {i: [] for i in range(batch_size)}
    ids = torch.zeros(batch_size, dtype=torch.long, device="cuda")
    for _ in range(steps):
        out = runner.execute(SchedulerOutput(list(range(batch_size)), ids))
        pending.append(out)
        if len(pending) > 1:
            for rid, tok in pending.popleft().get().items():
                history[rid].append(tok)
    while pending:
        for rid, tok in pending.popleft().get().items():
            history[rid].append(tok)
    return history


if __name__ == "__main__":
    print(serve())
