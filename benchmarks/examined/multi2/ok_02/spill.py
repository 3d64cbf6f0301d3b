from collections import deque

import torch


class Spiller:
    """Writes rows out to page-locked memory; rows come back to the arena on reap()."""

    def __init__(self, arena, capacity):
        self.arena = arena
        self.sink = torch.empty(
            capacity, arena.store.shape[1], dtype=arena.store.dtype, pin_memory=True
        )
        self.side = torch.cuda.Stream()
        self.pending = deque()
        self.on_ready = None
        self._next = 0

    def spill(self, key, row):
        slot = self._next
        self._next += 1
        done = torch.cuda.Event()
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.sink[slot].copy_(self.arena.view(row), non_blocking=True)
            done.record()
        self.pending.append((done, key, row, slot))

    def reap(self, block=False):
        n = 0
        while self.pending:
            done, key, row, slot = self.pending[0]
            if not done.query():
                if not block:
                    break
                done.synchronize()
            self.pending.popleft()
            self.arena.release(row)
            if self.on_ready is not None:
                self.on_ready(key, self.sink[slot])
            n += 1
        return n
