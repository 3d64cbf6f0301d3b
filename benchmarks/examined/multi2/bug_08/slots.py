from collections import OrderedDict

import cupy as cp


class SlotTable:
    """Least-recently-used mapping of node blocks to rows of one GPU array."""

    def __init__(self, n_slots, rows, dim):
        self.data = cp.zeros((n_slots, rows, dim), dtype=cp.float32)
        self._lru = OrderedDict()
        self._idle = list(range(n_slots))
        self.hits = 0
        self.misses = 0

    def lookup(self, key):
        slot = self._lru.get(key)
        if slot is not None:
            self._lru.move_to_end(key)
            self.hits += 1
        else:
            self.misses += 1
        return slot

    def assign(self, key):
        if self._idle:
            slot = self._idle.pop()
        else:
            _, slot = self._lru.popitem(last=False)
        self._lru[key] = slot
        return slot

    @property
    def hit_rate(self):
        n = self.hits + self.misses
        return self.hits / n if n else 0.0

    def resident(self):
        return list(self._lru)

    def __len__(self):
        return len(self._lru)
