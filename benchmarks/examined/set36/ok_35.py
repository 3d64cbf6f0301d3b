"""Paged attention metadata: small host lists become device tensors through short-lived staging."""
from dataclasses import dataclass

import torch


@dataclass
class Request:
    rid: int
    length: int
    blocks: list


@dataclass
class Metadata:
    lengths: torch.Tensor
    table: torch.Tensor
    slots: torch.Tensor


class MetadataBuilder:
    def __init__(self, block_size, max_blocks, device="cuda"):
        self.block_size = block_size
        self.max_blocks = max_blocks
        self.device = device

    def _upload(self, values, dtype):
        return torch.tensor(values, dtype=dtype, pin_memory=True).to(self.device, non_blocking=True)

    def build(self, requests):
        table = [r.blocks + [0] * (self.max_blocks - len(r.blocks)) for r in requests]
        slots = [
            r.blocks[r.length // self.block_size] * self.block_size + r.length % self.block_size for r in requests
        ]
        return Metadata(
            lengths=self._upload([r.length + 1 for r in requests], torch.int32),
            table=self._upload(table, torch.int64),
            slots=self._upload(slots, torch.int64),
        )


class PagedCache:
    def __init__(self, blocks, block_size, dim, device="cuda"):
        self.block_size = block_size
        self.keys = torch.zeros(blocks * block_size, dim, device=device)
        self.values = torch.zeros(blocks * block_size, dim, device=device)

    def append(self, meta, k, v):
        self.keys.index_copy_(0, meta.slots, k)
        self.values.index_copy_(0, meta.slots, v)

    def attend(self, meta, q):
        n, width = meta.table.shape
        offsets = torch.arange(self.block_size, device=q.device)
        rows = (meta.table.unsqueeze(-1) * self.block_size + offsets).view(n, -1)
        keys, values = self.keys[rows], self.values[rows]
        scores = torch.einsum("nd,nsd->ns", q, keys) / q.shape[-1] ** 0.5
        valid = torch.arange(rows.shape[1], device=q.device) < meta.lengths.unsqueeze(1)
        probs = torch.softmax(scores.masked_fill(~valid, float("-inf")), dim=-1)
        return torch.einsum("ns,nsd->nd", probs, values)


class Engine:
    """Decoding loop on its own stream."""

    def __init__(self, dim=256, blocks=4096, block_size=16, max_blocks=32):
        self.stream = torch.cuda.Stream()
        self.builder = MetadataBuilder(block_size, max_blocks)
        self.cache = PagedCache(blocks, block_size, dim)
        self.proj = torch.randn(3, dim, dim, device="cuda") / dim ** 0.5
        self.free = list(range(blocks))
        self.block_size = block_size
        torch.cuda.synchronize()

    def add(self, rid):
        return Request(rid, 0, [self.free.pop()])

    @torch.no_grad()
    def step(self, requests, x):
        with torch.cuda.stream(self.stream):
            meta = self.builder.build(requests)
            q, k, v = (x @ w for w in self.proj)
            self.cache.append(meta, k, v)
            y = self.cache.attend(meta, q)
        for r in requests:
            r.length += 1
            if r.length % self.block_size == 0:
                r.blocks.append(self.free.pop())
        return y


def main():
    engine = Engine()
    requests = [engine.add(i) for i in range(64)]
    with torch.cuda.stream(engine.stream):
        x = torch.randn(64, 256, device="cuda")
    for _ in range(300):
        x = engine.step(requests, x)
    engine.stream.synchronize()
    with torch.cuda.stream(engine.stream):
        print(float(x.norm()))


if __name__ == "__main__":
    main()
