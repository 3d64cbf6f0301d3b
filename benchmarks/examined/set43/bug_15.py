from collections import deque
from dataclasses import dataclass, field
from typing import Deque, List, Optional, Tuple

import torch
import torch.nn as nn


def pinned_copy(t: torch.Tensor) -> torch.Tensor:
    host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
    return host.copy_(t, non_blocking=True)


@dataclass
class SamplingMask:
    token_ids: torch.Tensor
    lengths: torch.Tensor

    def to_host(self) -> "SamplingMask":
        return SamplingMask(pinned_copy(self.token_ids), pinned_copy(self.lengths))


@dataclass
class BatchResult:
    next_token_ids: torch.Tensor
    logprobs: Optional[torch.Tensor] = None
    sampling_mask: Optional[SamplingMask] = None
    copy_done: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    keep: Tuple = ()

    def copy_to_cpu(self, copy_stream: torch.cuda.Stream):
        self.keep = (self.next_token_ids, self.logprobs, self.sampling_mask)
        copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copy_stream):
            self.next_token_ids = pinned_copy(self.next_token_ids)
            if self.logprobs is not None:
                self.logprobs = pinned_copy(self.logprobs)
            self.copy_done.record()
            if self.sampling_mask is not None:
                self.sampling_mask = self.sampling_mask.to_host()


class Sampler(nn.Module):
    def __init__(self, top_p: float, max_support: int):
        super().__init__()
        self.top_p = top_p
        self.max_support = max_support

    def forward(self, logits: torch.Tensor) -> BatchResult:
        probs = logits.softmax(-1)
        top, idx = probs.topk(self.max_support, dim=-1)
        inside = top.cumsum(-1) - top < self.top_p
        lengths = inside.sum(-1)
        top = top * inside
        pick = torch.multinomial(top, 1)
        token = idx.gather(1, pick).squeeze(1)
        logprob = probs.gather(1, token.unsqueeze(1)).log().squeeze(1)
        return BatchResult(token, logprob, SamplingMask(idx, lengths))


class Scheduler:
    def __init__(self, vocab: int, width: int, batch: int):
        self.embed = nn.Embedding(vocab, width, device="cuda")
        self.mix = nn.Linear(width, width, device="cuda")
        self.sampler = Sampler(top_p=0.9, max_support=2048)
        self.copy_stream = torch.cuda.Stream()
        self.ids = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.queue: Deque[BatchResult] = deque()
        self.masks: List[List[List[int]]] = []
        self.tokens: List[List[int]] = []

    def run_batch(self):
        h = torch.tanh(self.mix(self.embed(self.ids)))
        result = self.sampler(h @ self.embed.weight.t())
        self.ids = result.next_token_ids
        result.copy_to_cpu(self.copy_stream)
        self.queue.append(result)

    def process(self, result: BatchResult):
        result.copy_done.synchronize()
        self.tokens.append(result.next_token_ids.tolist())
        mask = result.sampling_mask
        if mask is not None:
            rows = []
            for ids, n in zip(mask.token_ids.tolist(), mask.lengths.tolist()):
                rows.append(ids[:n])
            self.masks.append(rows)
        result.keep = ()

    @torch.inference_mode()
    def event_loop(self, steps: int):
        for _ in range(steps):
            self.run_batch()
            if len(self.queue) > 1:
                self.process(self.queue.popleft())
        while self.queue:
            self.process(self.queue.popleft())


def main():
    torch.manual_seed(0)
    sched = Scheduler(vocab=65536, width=1024, batch=64)
    sched.event_loop(32)
    print(len(sched.tokens), sum(len(r) for r in sched.masks[-1]))


if __name__ == "__main__":
    main()
