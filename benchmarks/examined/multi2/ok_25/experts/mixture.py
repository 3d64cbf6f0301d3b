import torch
import torch.nn as nn
import torch.nn.functional as F


class Mixture(nn.Module):
    def __init__(self, index, hidden, experts, pool, top=2):
        super().__init__()
        self.index = index
        self.top = top
        self.router = nn.Linear(hidden, experts, bias=False)
        self.dense = nn.Linear(hidden, hidden, bias=False)
        self.pool = pool

    def route(self, x):
        scores = self.router(x).mean(dim=0).softmax(-1)
        gate, picks = scores.topk(self.top)
        return gate, [(self.index, e) for e in picks.tolist()]

    @torch.no_grad()
    def forward(self, x):
        gate, keys = self.route(x)
        seats = self.pool.ensure(keys)
        y = self.dense(x)
        self.pool.meet()
        for g, seat in zip(gate.unbind(), seats):
            up, down = self.pool.table[seat].unbind()
            y += g * (F.silu(x @ up.t()) @ down)
        return x + y
