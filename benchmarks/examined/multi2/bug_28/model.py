import torch
import torch.nn as nn


class Ranker(nn.Module):
    def __init__(self, width, slots, dim=64):
        super().__init__()
        self.table = nn.Linear(slots, dim, bias=False)
        self.bottom = nn.Sequential(nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, dim))
        self.top = nn.Sequential(nn.Linear(2 * dim, 1024), nn.ReLU(), nn.Linear(1024, 1))

    def forward(self, batch):
        a = self.bottom(batch.dense)
        b = self.table(batch.sparse)
        return self.top(torch.cat([a, b], dim=1)).squeeze(1)
