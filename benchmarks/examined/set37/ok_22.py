"""Step inputs of a paged decoder are rebuilt from Python lists and sent without a stop."""
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn


@dataclass
class Request:
    tokens: list
    blocks: list = field(default_factory=list)
    computed: int = 0


def to_device(values, dtype, device):
    return torch.tensor(values, dtype=dtype, pin_memory=True).to(device, non_blocking=True)


class PagedDecoder(nn.Module):
    def __init__(self, vocab, hidden, num_blocks, block_size):
        super().__init__()
        self.block_size = block_size
        self.embed = nn.Embedding(vocab, hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, vocab, bias=False)
        self.register_buffer("cache", torch.zeros(2, num_blocks * block_size, hidden))

    def forward(self, ids, slots, tables, lengths):
        q, k, v = self.qkv(self.embed(ids)).chunk(3, dim=-1)
        self.cache[0].index_copy_(0, slots, k)
        self.cache[1].index_copy_(0, slots, v)
        offsets = torch.arange(self.block_size, device=ids.device)
        rows = (tables.unsqueeze(-1) * self.block_size + offsets).flatten(1)
        keys, values = self.cache[0][rows], self.cache[1][rows]
        scores = torch.einsum("bh,bsh->bs", q, keys) * q.shape[-1] ** -0.5
        steps = torch.arange(rows.shape[1], device=ids.device)
        scores = scores.masked_fill(steps >= lengths.unsqueeze(1), float("-inf"))
        return self.out(torch.einsum("bs,bsh->bh", scores.softmax(-1), values))


class StepResult:
    def __init__(self, tokens):
        self._host = tokens.to("cpu", non_blocking=True)
        self._event = torch.cuda.Event()
        self._event.record(torch.cuda.current_stream(tokens.device))

    def get(self):
        self._event.synchronize()
        return self._host.tolist()


class Worker:
    def __init__(self, vocab=32000, hidden=1024, num_blocks=4096, block_size=16, device="cuda"):
        self.device = torch.device(device)
        self.block_size = block_size
        self.model = PagedDecoder(vocab, hidden, num_blocks, block_size).to(device).eval()
        self.free_blocks = list(range(num_blocks))

    def _grow(self, request):
        while len(request.blocks) * self.block_size <= request.computed:
            request.blocks.append(self.free_blocks.pop())

    @torch.inference_mode()
    def step(self, requests):
        slots, lengths = [], []
        width = 0
        for r in requests:
            self._grow(r)
            block = r.blocks[r.computed // self.block_size]
            slots.append(block * self.block_size + r.computed % self.block_size)
            r.computed += 1
            lengths.append(r.computed)
            width = max(width, len(r.blocks))
        tables = np.zeros((len(requests), width), dtype=np.int64)
        for row, r in zip(tables, requests):
            row[: len(r.blocks)] = r.blocks
        ids = to_device([r.tokens[-1] for r in requests], torch.int64, self.device)
        slots = to_device(slots, torch.int64, self.device)
        lengths = to_device(lengths, torch.int64, self.device)
        tables = torch.from_numpy(tables).pin_memory().to(self.device, non_blocking=True)
        return StepResult(self.model(ids, slots, tables, lengths).argmax(dim=-1))


def generate(worker, prompts, steps):
    requests = [Request(list(p)) for p in prompts]
    for _ in range(steps):
        for request, token in zip(requests, worker.step(requests).get()):
            request.tokens.append(token)
    return [r.tokens for r in requests]


if __name__ == "__main__":
    print(len(generate(Worker(), [[1], [2], [3]], steps=40)[0]))
