from contextlib import ExitStack

import torch
import torch.nn as nn
import torch.nn.functional as F


class SparseBlock(nn.Module):
    def __init__(self, cfg, index, cache, speculator, aside):
        super().__init__()
        self.index = index
        self.top = cfg.top
        self.router = nn.Linear(cfg.hidden, cfg.experts, bias=False)
        self.shared = nn.Sequential(
            nn.Linear(cfg.hidden, cfg.inner, bias=False),
            nn.SiLU(),
            nn.Linear(cfg.inner, cfg.hidden, bias=False),
        )
        self.cache = cache
        self.speculator = speculator
        self.aside = aside

    def _branch(self, stack):
        if self.aside is None:
            return
        self.aside.wait_stream(torch.cuda.current_stream())
        stack.enter_context(torch.cuda.stream(self.aside))

    def _join(self, *tensors):
        if self.aside is None:
            return
        here = torch.cuda.current_stream()
        here.wait_stream(self.aside)
        for t in tensors:
            t.record_stream(here)

    def _routed(self, x, seats, gates):
        out = torch.zeros_like(x)
        for seat, g in zip(seats, gates):
            h = F.silu(x @ seat.up.t())
            out += g * (h @ seat.down)
        return out

    @torch.no_grad()
    def forward(self, x):
        weight, picks = self.router(x).mean(0).softmax(-1).topk(self.top)
        chosen = picks.tolist()
        self.speculator.require(self.index, chosen)
        with ExitStack() as stack:
            self._branch(stack)
            seats = [self.cache.checkout((self.index, e)) for e in chosen]
            routed = self._routed(x, seats, weight.unbind())
        common = self.shared(x)
        for seat in seats:
            self.cache.checkin(seat)
        self.speculator.guess(self.index, chosen)
        self._join(routed)
        return x + common + routed
