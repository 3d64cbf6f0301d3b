import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, dim, mult=4):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, dim * mult)
        self.fc2 = nn.Linear(dim * mult, dim)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.fc1(self.norm(x)))
        return x + self.fc2(h)


class Denoiser(nn.Module):
    def __init__(self, depth, dim):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
