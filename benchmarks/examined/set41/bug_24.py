"""Paged KV decode loop with a scheduler that runs ahead of the device."""
import collections
import itertools
from dataclasses import dataclass, field
from typing import Deque, Dict, List, Tuple

import torch


@dataclass
class PagedConfig:
    blocks: int = 4096
    block_size: int = 16
    max_blocks_per_seq: int = 128
    max_batch: int = 64
    heads: int = 8
    head_dim: int = 64
    inflight: int = 2
    vocab: int = 32000


@dataclass
class Sequence:
    sid: int
    length: int = 1
    blocks: List[int] = field(default_factory=list)
    output: List[int] = field(default_factory=list)
    budget: int = 64

    @property
    def done(self) -> bool:
        return len(self.output) >= self.budget


class BlockAllocator:
    def __init__(self, n: int):
        self.free: Deque[int] = collections.deque(range(n))

    def grow(self, seq: Sequence, block_size: int) -> None:
        while len(seq.blocks) * block_size < seq.length + 1:
            seq.blocks.append(self.free.popleft())

    def drop(self, seq: Sequence) -> None:
        self.free.extend(seq.blocks)
        seq.blocks.clear()


class BlockTable:
    """Page table for the current batch, in host and device form."""

    def __init__(self, cfg: PagedConfig, device: torch.device):
        shape = (cfg.max_batch, cfg.max_blocks_per_seq)
        self.host = torch.zeros(shape, dtype=torch.int32, pin_memory=True)
        self.host_len = torch.zeros(cfg.max_batch, dtype=torch.int32, pin_memory=True)
        self.dev = torch.zeros(shape, dtype=torch.int32, device=device)
        self.dev_len = torch.zeros(cfg.max_batch, dtype=torch.int32, device=device)

    def publish(self, batch: List[Sequence]) -> Tuple[torch.Tensor, torch.Tensor]:
        for row, seq in enumerate(batch):
            n = len(seq.blocks)
            self.host[row, :n] = torch.tensor(seq.blocks, dtype=torch.int32)
            self.host_len[row] = seq.length
        b = len(batch)
        self.dev[:b].copy_(self.host[:b], non_blocking=True)
        self.dev_len[:b].copy_(self.host_len[:b], non_blocking=True)
        return self.dev[:b], self.dev_len[:b]


class ToyDecoder:
    def __init__(self, cfg: PagedConfig, device: torch.device):
        self.cfg = cfg
        width = cfg.heads * cfg.head_dim
        self.emb = torch.randn(cfg.vocab, width, device=device, dtype=torch.float16)
        self.wq = torch.randn(width, width, device=device, dtype=torch.float16) * 0.02
        self.kv = torch.zeros(cfg.blocks, cfg.block_size, width, device=device, dtype=torch.float16)

    def step(self, last: torch.Tensor, table: torch.Tensor, lens: torch.Tensor) -> torch.Tensor:
        x = self.emb[last]
        q = x @ self.wq
        pos = lens.long()
        blk = table.gather(1, (pos // self.cfg.block_size).unsqueeze(1)).squeeze(1).long()
        self.kv[blk, pos % self.cfg.block_size] = x
        pages = self.kv[table.long()].flatten(1, 2)
        scores = torch.einsum("bd,btd->bt", q, pages)
        mask = torch.arange(pages.shape[1], device=q.device)[None] > pos[:, None]
        attn = scores.masked_fill(mask, float("-inf")).softmax(-1)
        ctx = torch.einsum("bt,btd->bd", attn, pages)
        return (ctx @ self.emb.t()).argmax(-1)


class Engine:
    def __init__(self, cfg: PagedConfig):
        self.cfg = cfg
        self.device = torch.device("cuda")
        self.alloc = BlockAllocator(cfg.blocks)
        self.table = BlockTable(cfg, self.device)
        self.model = ToyDecoder(cfg, self.device)
        self.running: List[Sequence] = []
        self.pending: Deque[tuple] = collections.deque()
        self.last: Dict[int, torch.Tensor] = {}
        self.ids = itertools.count()

    def add(self, n: int) -> None:
        for _ in range(n):
            s = Sequence(next(self.ids))
            self.running.append(s)
        self.tokens = torch.ones(len(self.running), dtype=torch.long, device=self.device)

    def _dispatch(self) -> None:
        for s in self.running:
            self.alloc.grow(s, self.cfg.block_size)
        table, lens = self.table.publish(self.running)
        self.tokens = self.model.step(self.tokens, table, lens)
        host = torch.empty(len(self.running), dtype=torch.long, pin_memory=True)
        host.copy_(self.tokens, non_blocking=True)
        ev = torch.cuda.Event()
        ev.record()
        self.pending.append((ev, host, list(self.running)))
        for s in self.running:
            s.length += 1

    def _retire(self) -> None:
        ev, host, batch = self.pending.popleft()
        ev.synchronize()
        for s, t in zip(batch, host.tolist()):
            s.output.append(t)

    @torch.inference_mode()
    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._dispatch()
            if len(self.pending) > self.cfg.inflight:
                self._retire()
        while self.pending:
            self._retire()


def main():
    eng = Engine(PagedConfig())
    eng.add(32)
    eng.run(64)
    for s in eng.running[:4]:
        print(s.sid, s.output[:8])


if __name__ == "__main__":
    main()
