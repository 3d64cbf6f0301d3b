from dataclasses import dataclass
from typing import Dict, List

import torch


@dataclass
class BlockSpec:
    hidden: int = 2048
    inner: int = 8192
    n_blocks: int = 24
    dtype: torch.dtype = torch.float16

    def shapes(self) -> Dict[str, tuple]:
        return {
            "up": (self.hidden, self.inner),
            "down": (self.inner, self.hidden),
            "scale": (self.hidden,),
        }


class HostWeights:
    """Page-locked copy of every block, one flat dict for each."""

    def __init__(self, spec: BlockSpec):
        self.spec = spec
        self.blocks: List[Dict[str, torch.Tensor]] = []
        for _ in range(spec.n_blocks):
            self.blocks.append(self._make_block())

    def _make_block(self):
        block = {}
        for name, shape in self.spec.shapes().items():
            t = torch.empty(shape, dtype=self.spec.dtype, pin_memory=True)
            t.normal_(std=0.02)
            block[name] = t
        return block

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        return self.blocks[i]
