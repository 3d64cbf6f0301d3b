import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self, width=1024, inner=4096, depth=6, positions=512):
        super().__init__()
        self.pos = nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, inner), nn.GELU(),
                          nn.Linear(inner, width))
            for _ in range(depth)
        )
        self.score = nn.Linear(width, 1)

    def forward(self, x, pos):
        h = x + self.pos(pos)
        for block in self.blocks:
            h = h + block(h)
        return self.score(h).squeeze(-1)


class ScaledRanker(Ranker):
    """Same, with a learned temperature."""

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self.log_t = nn.Parameter(torch.zeros(()))

    def forward(self, x, pos):
        return super().forward(x, pos) / self.log_t.exp()


def count_parameters(model):
    return sum(p.numel() for p in model.parameters())
