from dataclasses import dataclass
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Seq:
    last_token: int
    length: int
    table: List[int]


@dataclass
class Context:
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    block_tables: torch.Tensor


def to_gpu(values, dtype=torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, pin_memory=True).cuda(non_blocking=True)


class Runner:
    block_size = 32

    def __init__(self, vocab: int, width: int, blocks: int):
        self.embed = nn.Embedding(vocab, width).cuda()
        self.proj = nn.Linear(width, width).cuda()
        self.cache = torch.zeros(blocks * self.block_size, width, device="cuda")

    def prepare_block_tables(self, seqs: List[Seq]) -> torch.Tensor:
        width = max(len(s.table) for s in seqs)
        rows = [s.table + [0] * (width - len(s.table)) for s in seqs]
        return to_gpu(rows)

    def prepare_decode(self, seqs: List[Seq]):
        ids, positions, slots = [], [], []
        for s in seqs:
            pos = s.length - 1
            ids.append(s.last_token)
            positions.append(pos)
            slots.append(s.table[pos // self.block_size] * self.block_size + pos % self.block_size)
        ctx = Context(to_gpu(positions), to_gpu(slots), self.prepare_block_tables(seqs))
        return to_gpu(ids), ctx

    def forward(self, ids: torch.Tensor, ctx: Context) -> torch.Tensor:
        h = self.embed(ids) + ctx.positions.unsqueeze(-1).to(torch.float32).sin()
        self.cache.index_copy_(0, ctx.slot_mapping, self.proj(h))
        first = ctx.block_tables[:, 0] * self.block_size
        keys = self.cache.index_select(0, first)
        h = h + F.silu(keys * h)
        return h @ self.embed.weight.t()

    def run(self, seqs: List[Seq]) -> List[int]:
        ids, ctx = self.prepare_decode(seqs)
        logits = self.forward(ids, ctx)
        return logits.argmax(-1).tolist()

    def warm(self, seqs: List[Seq], rounds: int) -> torch.Tensor:
        acc = torch.zeros(len(seqs), device="cuda")
        for _ in range(rounds):
            ids, ctx = self.prepare_decode(seqs)
            acc += self.forward(ids, ctx).amax(-1)
            for s in seqs:
                s.length += 1
        return acc


@torch.no_grad()
def main():
    runner = Runner(vocab=8192, width=512, blocks=256)
    seqs = [Seq(i, 3 + i % 7, list(range(4 * i, 4 * i + 4))) for i in range(48)]
    print(runner.warm(seqs, 20).mean().item())
    for _ in range(32):
        for seq, tok in zip(seqs, runner.run(seqs)):
            seq.last_token = tok
            seq.length += 1
    print([s.last_token for s in seqs[:8]])


if __name__ == "__main__":
    main()
