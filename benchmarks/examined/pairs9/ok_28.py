"""Autoregressive serving with one set of pinned input arrays per runner."""
import numpy as np
import torch
from torch import nn


class InputArrays:
    """Host-side views and their device counterparts."""

    def __init__(self, max_batch, max_blocks, device):
        self.device = device
        self.tokens = torch.zeros(max_batch, dtype=torch.int64, pin_memory=True)
        self.positions = torch.zeros(max_batch, dtype=torch.int64, pin_memory=True)
        self.tables = torch.zeros(max_batch, max_blocks, dtype=torch.int64, pin_memory=True)

    def fill(self, requests):
        for row, req in enumerate(requests):
            self.tokens[row] = req.last
            self.positions[row] = req.length
            self.tables[row, : len(req.blocks)] = torch.tensor(req.blocks)

    def upload(self, n):
        return tuple(t[:n].to(self.device, non_blocking=True)
                     for t in (self.tokens, self.positions, self.tables))


class Request:
    def __init__(self, rid, blocks):
        self.rid = rid
        self.last = rid
        self.length = 0
        self.blocks = blocks
        self.output = []

    def accept(self, token):
        self.output.append(token)
        self.last = token
        self.length += 1


class PagedModel(nn.Module):
    def __init__(self, vocab, dim, n_blocks, block):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)
        self.block = block
        self.register_buffer("cache", torch.zeros(n_blocks, block, dim))

    def forward(self, tokens, positions, tables):
        x = self.embed(tokens)
        block = tables.gather(1, (positions // self.block).unsqueeze(1)).squeeze(1)
        self.cache[block, positions % self.block] = x
        context = self.cache[tables].flatten(1, 2)
        scores = torch.einsum("bd,bsd->bs", x, context)
        hidden = torch.einsum("bs,bsd->bd", scores.softmax(-1), context)
        return self.head(hidden).argmax(-1)


class Runner:
    def __init__(self, model, max_batch, max_blocks):
        self.model = model
        self.inputs = InputArrays(max_batch, max_blocks, "cuda")

    @torch.inference_mode()
    def step(self, requests):
        self.inputs.fill(requests)
        sampled = self.model(*self.inputs.upload(len(requests)))
        for req, token in zip(requests, sampled.tolist()):
            req.accept(token)


def main():
    model = PagedModel(4000, 256, n_blocks=256, block=16).cuda()
    runner = Runner(model, max_batch=32, max_blocks=8)
    requests = [Request(i, list(np.arange(8) + 8 * i)) for i in range(32)]
    for _ in range(100):
        runner.step(requests)
    print(requests[0].output[:10])


if __name__ == "__main__":
    main()
