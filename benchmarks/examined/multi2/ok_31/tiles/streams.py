import itertools

import cupy as cp


class Rota:
    """Hands out streams in turn."""

    def __init__(self, count):
        self._all = [cp.cuda.Stream(non_blocking=True) for _ in range(count)]
        self._cycle = itertools.cycle(self._all)

    def take(self):
        return next(self._cycle)

    def drain(self):
        for s in self._all:
            s.synchronize()
