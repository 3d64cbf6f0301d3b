import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        h = self.norm(x)
        h = self.up(h)
        h = F.gelu(h)
        return x + self.down(h)


class Stack(nn.Module):
    def __init__(self, dim, depth, saver=None):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, dim)
        self.saver = saver

    def forward(self, x):
        for block in self.blocks:
            if self.saver is None or not self.training:
                x = block(x)
            else:
                with self.saver():
                    x = block(x)
        return self.head(x)


def param_groups(model, decay):
    plain, decayed = [], []
    for p in model.parameters():
        (decayed if p.ndim > 1 else plain).append(p)
    return [{"params": decayed, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]


def seed_all(seed):
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
