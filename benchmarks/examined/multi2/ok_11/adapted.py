import torch
from torch import nn


class AdaptedLinear(nn.Module):
    def __init__(self, dim, shelf, fetcher):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.shelf = shelf
        self.fetcher = fetcher

    def _apply_adapter(self, x, name):
        with self.shelf.lock:
            place = self.shelf.where.get(name)
            if place is None:
                return None
            y = (x @ self.shelf.a[place]) @ self.shelf.b[place]
            self.shelf.last_use[place] = torch.cuda.current_stream().record_event()
        return y

    def forward(self, x, name):
        h = self.base(x)
        extra = self._apply_adapter(x, name)
        while extra is None:
            self.fetcher.request(name).wait()
            extra = self._apply_adapter(x, name)
        return h + extra

    def extra_repr(self):
        return f"places={len(self.shelf.a)}"


class PlainLinear(nn.Module):
    """Ignores the adapter name."""

    def __init__(self, dim):
        super().__init__()
        self.base = nn.Linear(dim, dim)

    def forward(self, x, name=None):
        return self.base(x)
