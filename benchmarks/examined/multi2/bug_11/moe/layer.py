import torch
from torch import nn


class SparseMLP(nn.Module):
    """Top-1 routing; the next expert is asked for before the present one is run."""

    def __init__(self, dim, loader):
        super().__init__()
        self.loader = loader
        self.router = nn.Linear(dim, len(loader.bank), bias=False)

    def _run(self, slot, x):
        torch.cuda.current_stream().wait_event(slot.loaded)
        slot.touch()
        return torch.nn.functional.silu(x @ slot.w1) @ slot.w2

    def forward(self, x):
        choice = self.router(x).argmax(-1)
        out = torch.empty_like(x)
        wanted = choice.unique().tolist()
        rows = {e: (choice == e).nonzero().squeeze(1) for e in wanted}
        slot = self.loader.want(wanted[0])
        for k, e in enumerate(wanted):
            ahead = self.loader.want(wanted[k + 1]) if k + 1 < len(wanted) else None
            out[rows[e]] = self._run(slot, x[rows[e]])
            slot = ahead
        return out

    def load(self, x):
        """How many tokens each expert would get."""
        choice = self.router(x).argmax(-1)
        return torch.bincount(choice, minlength=len(self.loader.bank))


class PlainMLP(nn.Module):
    """Dense stand-in of the same width, for comparisons."""

    def __init__(self, dim, inner):
        super().__init__()
        self.w1 = nn.Linear(dim, inner, bias=False)
        self.w2 = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        return self.w2(torch.nn.functional.silu(self.w1(x)))
