"""Async-scheduled sampler: token ids go up on a copy stream while the model runs."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class SamplerInputs:
    logits: torch.Tensor
    token_ids: torch.Tensor
    lengths: torch.Tensor
    penalty: float
    top_k: int


class Sampler:
    def __init__(self) -> None:
        self.copy_stream = torch.cuda.Stream()

    def upload(self, inputs: SamplerInputs):
        main_stream = torch.cuda.current_stream()
        copy_done = torch.cuda.Event()
        with torch.cuda.stream(self.copy_stream):
            token_ids = inputs.token_ids.to("cuda", non_blocking=True)
            lengths = inputs.lengths.to("cuda", non_blocking=True)
            copy_done.record(self.copy_stream)
        token_ids.record_stream(main_stream)
        lengths.record_stream(main_stream)
        return token_ids, lengths, copy_done

    def forward(self, inputs: SamplerInputs) -> torch.Tensor:
        token_ids, lengths, copy_done = self.upload(inputs)
        logits = torch.log_softmax(inputs.logits.float(), dim=-1)
        torch.cuda.current_stream().wait_event(copy_done)
        valid = torch.arange(token_ids.shape[1], device="cuda") < lengths.unsqueeze(1)
        seen = torch.zeros_like(logits)
        seen.scatter_add_(1, token_ids, valid.float())
        logits = logits - inputs.penalty * (seen > 0)
        values, indices = logits.topk(inputs.top_k, dim=-1)
        picked = torch.multinomial(torch.softmax(values, dim=-1), 1)
        return indices.gather(1, picked).squeeze(1)


class Stream:
    """Request state on the host; token ids live in ordinary (pageable) memory."""

    def __init__(self, batch: int, prompt: torch.Tensor, max_len: int) -> None:
        self.token_ids = torch.zeros(batch, max_len, dtype=torch.int64)
        self.token_ids[:, : prompt.shape[1]] = prompt
        self.lengths = torch.full((batch,), prompt.shape[1], dtype=torch.int64)

    def append(self, tokens: torch.Tensor) -> None:
        self.token_ids.scatter_(1, self.lengths.unsqueeze(1), tokens.unsqueeze(1))
        self.lengths += 1


class Model(nn.Module):
    def __init__(self, vocab: int, dim: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.body = nn.Sequential(*[nn.Linear(dim, dim) for _ in range(16)])
        self.head = nn.Linear(dim, vocab)

    def forward(self, last: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(last)))


@torch.inference_mode()
def generate(model: Model, prompt: torch.Tensor, steps: int) -> torch.Tensor:
    batch = prompt.shape[0]
    state = Stream(batch, prompt, prompt.shape[1] + steps)
    sampler = Sampler()
    last = prompt[:, -1].cuda()
    for _ in range(steps):
        logits = model(last)
        last = sampler.forward(SamplerInputs(logits, state.token_ids, state.lengths, 1.2, 50))
        state.append(last.cpu())
    return state.token_ids


if __name__ == "__main__":
    lm = Model(32000, 1024).cuda().eval()
    print(generate(lm, torch.randint(0, 32000, (8, 16)), 32)[0].tolist())
