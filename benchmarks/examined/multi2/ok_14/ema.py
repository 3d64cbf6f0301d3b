from contextlib import contextmanager

import torch

from stash import HostStash


class Ema:
    def __init__(self, module, half_life=500):
        self.module = module
        self.rate = 1.0 - 0.5 ** (1.0 / half_life)
        self.mean = [p.detach().clone() for p in module.parameters()]
        self._stash = None

    @property
    def live(self):
        return [p.detach() for p in self.module.parameters()]

    @property
    def stash(self):
        if self._stash is None:
            self._stash = HostStash(self.mean)
        return self._stash

    @torch.no_grad()
    def update(self):
        torch._foreach_lerp_(self.mean, self.live, self.rate)

    @contextmanager
    def applied(self):
        """The averaged weights stand in for the live ones within the block."""
        self.stash.put(self.live)
        for p, m in zip(self.live, self.mean):
            p.copy_(m)
        try:
            yield self.module
        finally:
            self.stash.give_back(self.live)
