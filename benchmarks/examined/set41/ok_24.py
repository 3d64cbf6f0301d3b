"""Decode loop that builds its page tables in throw-away pinned tensors."""
import collections
from dataclasses import dataclass, field
from typing import Deque, List, Tuple

import numpy as np
import torch


@dataclass
class LoopConfig:
    blocks: int = 2048
    block: int = 16
    table: int = 64
    batch: int = 48
    width: int = 512
    vocab: int = 16000
    inflight: int = 2


@dataclass
class Request:
    rid: int
    length: int = 0
    pages: List[int] = field(default_factory=list)
    tokens: List[int] = field(default_factory=list)


class TableBuilder:
    """Assembles ragged page lists; nothing is kept from one step to the next."""

    def __init__(self, cfg: LoopConfig, device: torch.device):
        self.cfg, self.device = cfg, device

    def _stage(self, arr: np.ndarray) -> torch.Tensor:
        host = torch.empty(arr.shape, dtype=torch.int64, pin_memory=True)
        host.copy_(torch.from_numpy(arr))
        return host.to(self.device, non_blocking=True)

    def build(self, reqs: List[Request]) -> Tuple[torch.Tensor, torch.Tensor]:
        table = np.zeros((len(reqs), self.cfg.table), np.int64)
        lens = np.empty(len(reqs), np.int64)
        for i, r in enumerate(reqs):
            table[i, :len(r.pages)] = r.pages
            lens[i] = r.length
        return self._stage(table), self._stage(lens)


class PagedModel:
    def __init__(self, cfg: LoopConfig, device: torch.device):
        self.cfg = cfg
        self.emb = torch.randn(cfg.vocab, cfg.width, device=device) * 0.02
        self.kv = torch.zeros(cfg.blocks, cfg.block, cfg.width, device=device)
        self.w = torch.randn(cfg.width, cfg.width, device=device) / cfg.width ** 0.5

    def __call__(self, tok: torch.Tensor, table: torch.Tensor, lens: torch.Tensor) -> torch.Tensor:
        x = self.emb[tok]
        page = table.gather(1, (lens // self.cfg.block)[:, None])[:, 0]
        self.kv[page, lens % self.cfg.block] = x
        ctx = self.kv[table].flatten(1, 2)
        s = torch.einsum("bd,btd->bt", x @ self.w, ctx)
        s = s.masked_fill(torch.arange(ctx.shape[1], device=x.device) > lens[:, None], -1e9)
        return (torch.einsum("bt,btd->bd", s.softmax(-1), ctx) @ self.emb.t()).argmax(-1)


class Pending:
    def __init__(self, tokens: torch.Tensor, reqs: List[Request]):
        self.host = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True)
        self.host.copy_(tokens, non_blocking=True)
        self.event = torch.cuda.Event()
        self.event.record()
        self.reqs = reqs

    def resolve(self) -> None:
        self.event.synchronize()
        for r, t in zip(self.reqs, self.host.tolist()):
            r.tokens.append(t)


class Server:
    def __init__(self, cfg: LoopConfig):
        self.cfg = cfg
        self.device = torch.device("cuda")
        self.pool: Deque[int] = collections.deque(range(cfg.blocks))
        self.model = PagedModel(cfg, self.device)
        self.builder = TableBuilder(cfg, self.device)
        self.reqs = [Request(i) for i in range(cfg.batch)]
        self.tok = torch.zeros(cfg.batch, dtype=torch.int64, device=self.device)

    def _reserve(self) -> None:
        for r in self.reqs:
            if r.length % self.cfg.block == 0:
                r.pages.append(self.pool.popleft())

    @torch.inference_mode()
    def run(self, steps: int) -> None:
        waiting: Deque[Pending] = collections.deque()
        for _ in range(steps):
            self._reserve()
            table, lens = self.builder.build(self.reqs)
            self.tok = self.model(self.tok, table, lens)
            waiting.append(Pending(self.tok, list(self.reqs)))
            for r in self.reqs:
                r.length += 1
            if len(waiting) > self.cfg.inflight:
                waiting.popleft().resolve()
        while waiting:
            waiting.popleft().resolve()


def main():
    s = Server(LoopConfig())
    s.run(96)
    print([r.tokens[:5] for r in s.reqs[:3]])


if __name__ == "__main__":
    main()
