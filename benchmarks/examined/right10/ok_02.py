"""Run a large decoder with its blocks in host memory and two device-side slots."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class Slot:
    w1: torch.Tensor
    w2: torch.Tensor
    filled: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    drained: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class HostBlock:
    def __init__(self, dim: int, hidden: int):
        self.w1 = torch.randn(hidden, dim).div_(dim ** 0.5).pin_memory()
        self.w2 = torch.randn(dim, hidden).div_(hidden ** 0.5).pin_memory()


class PagedDecoder:
    NSLOTS = 2

    def __init__(self, blocks: list[HostBlock], dim: int, hidden: int, device="cuda"):
        self.blocks = blocks
        self.io = torch.cuda.Stream(device)
        self.slots = [
            Slot(
                torch.empty(hidden, dim, device=device),
                torch.empty(dim, hidden, device=device),
            )
            for _ in range(self.NSLOTS)
        ]
        for s in self.slots:
            s.drained.record()

    def _slot(self, index: int) -> Slot:
        return self.slots[index % self.NSLOTS]

    def _fetch(self, index: int) -> None:
        if index >= len(self.blocks):
            return
        slot, block = self._slot(index), self.blocks[index]
        self.io.wait_event(slot.drained)
        with torch.cuda.stream(self.io):
            slot.w1.copy_(block.w1, non_blocking=True)
            slot.w2.copy_(block.w2, non_blocking=True)
            slot.filled.record()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self._fetch(0)
        for i in range(len(self.blocks)):
            self._fetch(i + 1)
            slot = self._slot(i)
            slot.filled.wait()
            x = x + F.linear(F.gelu(F.linear(x, slot.w1)), slot.w2)
            slot.drained.record()
        return x


def main():
    dim, hidden = 1024, 4096
    net = PagedDecoder([HostBlock(dim, hidden) for _ in range(24)], dim, hidden)
    head = nn.Linear(dim, 32000).cuda()
    with torch.inference_mode():
        for step in range(16):
            x = torch.randn(8, dim, device="cuda")
            token = head(net(x)).argmax(-1)
            print(step, token.tolist())


if __name__ == "__main__":
    main()
