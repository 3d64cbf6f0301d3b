from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from engine import make_engine


class Ranker(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(dim, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()
        )
        self.head = nn.Linear(512, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)


class Service:
    def __init__(self, workers=4, batch=64, dim=128):
        self.engine = make_engine(Ranker(dim), (batch, dim))
        self.pool = ThreadPoolExecutor(workers)

    def _handle(self, rows):
        score = self.engine.infer(rows)
        return torch.softmax(score, dim=0).cpu()

    def submit(self, rows):
        if rows.shape[0] > self.engine.capacity:
            raise ValueError("too many rows")
        return self.pool.submit(self._handle, rows)

    def close(self):
        self.pool.shutdown()
