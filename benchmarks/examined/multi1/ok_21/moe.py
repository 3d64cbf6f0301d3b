import torch
from torch import nn

from fanout import fan_out


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.a = nn.Linear(dim, hidden)
        self.b = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.b(torch.nn.functional.silu(self.a(x)))


class MixtureOfExperts(nn.Module):
    def __init__(self, dim=256, hidden=1024, experts=8, k=2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))

    def forward(self, x):
        w, choice = torch.softmax(self.gate(x), dim=-1).topk(self.k, dim=-1)
        out = torch.zeros_like(x)
        rows, used, parts, weights = [], [], [], []
        for e, expert in enumerate(self.experts):
            r, slot = (choice == e).nonzero(as_tuple=True)
            if r.numel() == 0:
                continue
            rows.append(r)
            used.append(expert)
            parts.append(x[r])
            weights.append(w[r, slot, None])
        for r, c, y in zip(rows, weights, fan_out(used, parts)):
            out.index_add_(0, r, y.mul_(c))
        return out
