"""Grammar-constrained sampling for pipelined micro-batches."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn


class TokenMatcher:
    """Tiny automaton: the allowed set depends on the last accepted token."""

    def __init__(self, vocab_size: int, stride: int) -> None:
        self.vocab_size = vocab_size
        self.stride = stride
        self.state = 0

    def fill_bitmask(self, row: torch.Tensor) -> None:
        allowed = torch.arange(self.state % self.stride, self.vocab_size, self.stride)
        words = torch.zeros(row.numel(), dtype=torch.int64)
        words.scatter_add_(0, allowed // 32, torch.bitwise_left_shift(torch.ones_like(allowed), allowed % 32))
        row.copy_(words.to(torch.int32))

    def accept(self, token: int) -> None:
        self.state = token


@dataclass
class MicroBatch:
    input_ids: torch.Tensor
    matchers: list[TokenMatcher]
    tokens: torch.Tensor | None = None
    history: list[list[int]] = field(default_factory=list)


class GrammarLogitsProcessor:
    def __init__(self, max_batch: int, vocab_size: int) -> None:
        self.words = (vocab_size + 31) // 32
        self.vocab_size = vocab_size
        self.bitmask_cpu = torch.full((max_batch, self.words), -1, dtype=torch.int32, pin_memory=True)
        self.bit = torch.arange(32, dtype=torch.int32, device="cuda")

    def _prepare_bitmask(self, matchers: list[TokenMatcher]) -> torch.Tensor:
        bitmask = self.bitmask_cpu.narrow(0, 0, len(matchers))
        bitmask.fill_(-1)
        for row, matcher in zip(bitmask, matchers):
            matcher.fill_bitmask(row)
        return bitmask

    def process(self, logits: torch.Tensor, matchers: list[TokenMatcher]) -> torch.Tensor:
        packed_cpu = self._prepare_bitmask(matchers)
        packed = torch.empty(packed_cpu.shape, dtype=torch.int32, device=logits.device)
        packed.copy_(packed_cpu, non_blocking=True)
        allow = (packed.unsqueeze(-1) >> self.bit) & 1
        allow = allow.view(len(matchers), -1)[:, : self.vocab_size].bool()
        return logits.masked_fill(~allow, float("-inf"))


class TinyLM(nn.Module):
    def __init__(self, vocab: int, dim: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.body = nn.Sequential(*[
            nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
            for _ in range(layers)
        ])
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(ids)))


class Engine:
    def __init__(self, model: nn.Module, vocab: int, max_batch: int) -> None:
        self.model = model
        self.processor = GrammarLogitsProcessor(max_batch, vocab)

    @torch.inference_mode()
    def step(self, batches: list[MicroBatch]) -> None:
        for mb in batches:
            logits = self.model(mb.input_ids)
            mb.tokens = self.processor.process(logits, mb.matchers).argmax(dim=-1)
            mb.input_ids = mb.tokens
        for mb in batches:
            accepted = mb.tokens.tolist()
            mb.history.append(accepted)
            for matcher, token in zip(mb.matchers, accepted):
                matcher.accept(token)


if __name__ == "__main__":
    V, B = 32000, 16
    engine = Engine(TinyLM(V, 1024, 12).cuda().eval(), V, B)
    work = [
        MicroBatch(torch.randint(0, V, (B,), device="cuda"), [TokenMatcher(V, 3 + k + i) for i in range(B)])
        for k in range(2)
    ]
    for _ in range(16):
        engine.step(work)
    print(work[0].history[-1], work[1].history[-1])
