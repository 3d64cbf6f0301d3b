"""Per-step batch metadata for a paged decoder."""
from dataclasses import dataclass, field
from typing import Dict, List

import torch


@dataclass
class Sequence:
    tokens: List[int]
    blocks: List[int] = field(default_factory=list)


class BatchMetadata:
    def __init__(self, max_seqs: int, max_blocks: int, block_size: int, device: torch.device):
        self.device = device
        self.block_size = block_size
        self.max_blocks = max_blocks
        self.max_seqs = max_seqs
        self.lengths = torch.zeros(max_seqs, dtype=torch.int32, device=device)
        self.tokens = torch.zeros(max_seqs, dtype=torch.long, device=device)
        self.table = torch.zeros(max_seqs, max_blocks, dtype=torch.int32, device=device)

    def _put(self, dst: torch.Tensor, values) -> None:
        dst.copy_(torch.tensor(values, dtype=dst.dtype, pin_memory=True), non_blocking=True)

    def update(self, seqs: List[Sequence]) -> int:
        n = len(seqs)
        if n == 0:
            return 0
        if n > self.max_seqs:
            raise ValueError("too many sequences")
        self._put(self.lengths[:n], [len(s.tokens) for s in seqs])
        self._put(self.tokens[:n], [s.tokens[-1] for s in seqs])
        rows = []
        for s in seqs:
            if len(s.blocks) > self.max_blocks:
                raise ValueError("sequence exceeds block table")
            rows.append(s.blocks + [0] * (self.max_blocks - len(s.blocks)))
        self._put(self.table[:n], rows)
        return n


class PagedDecoder:
    def __init__(self, embed: torch.Tensor, meta: BatchMetadata, total_blocks: int):
        self.embed = embed
        self.meta = meta
        self.cache = torch.zeros(total_blocks * meta.block_size, embed.shape[1], device=embed.device)
        self.free = list(range(total_blocks))

    def _slots(self, n: int) -> torch.Tensor:
        size = self.meta.block_size
        pos = (self.meta.lengths[:n] - 1).long()
        block = self.meta.table[:n].long().gather(1, (pos // size).unsqueeze(1)).squeeze(1)
        return block * size + pos % size

    @torch.no_grad()
    def step(self, seqs: Dict[int, Sequence]) -> Dict[int, int]:
        order = list(seqs)
        for key in order:
            s = seqs[key]
            if len(s.tokens) > len(s.blocks) * self.meta.block_size:
                s.blocks.append(self.free.pop())
        n = self.meta.update([seqs[k] for k in order])
        if n == 0:
            return {}
        hidden = self.embed[self.meta.tokens[:n]]
        self.cache[self._slots(n)] = hidden
        logits = hidden @ self.embed.t()
        chosen = logits.argmax(dim=-1).tolist()
        for key, token in zip(order, chosen):
            seqs[key].tokens.append(token)
        return dict(zip(order, chosen))
