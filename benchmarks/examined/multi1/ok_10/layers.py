import torch
from torch import nn

from toolkit import *


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, dim * 4)
        self.down = nn.Linear(dim * 4, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Recorder:
    def __init__(self, blocks):
        self.blocks = blocks
        self.saved = []

    @torch.no_grad()
    def forward(self, x):
        self.saved = []
        for b in self.blocks:
            self.saved.append(offload(x))
            x = b(x)
        self.saved.append(offload(x))
        drain()
        return x

    @torch.no_grad()
    def replay(self, i):
        return self.blocks[i](onload(self.saved[i]))
