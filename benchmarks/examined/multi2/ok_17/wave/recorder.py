import cupy as cp
import cupyx
import numpy as np


class Recorder:
    """Takes pictures of a field, two in flight at most, and keeps row means."""

    def __init__(self, shape, stream, depth=2):
        self.stream = stream
        self.hosts = [cupyx.empty_pinned(shape, np.float32) for _ in range(depth)]
        self.marks = [cp.cuda.Event(disable_timing=True) for _ in range(depth)]
        self.used = [False] * depth
        self.turn = 0
        self.profiles = []

    def _harvest(self, slot):
        if not self.used[slot]:
            return
        self.marks[slot].synchronize()
        self.profiles.append(self.hosts[slot].mean(axis=1))
        self.used[slot] = False

    def shoot(self, field):
        slot = self.turn
        self._harvest(slot)
        field.get(stream=self.stream, out=self.hosts[slot], blocking=False)
        self.marks[slot].record(self.stream)
        self.used[slot] = True
        self.turn = (slot + 1) % len(self.hosts)

    def finish(self):
        for k in range(len(self.hosts)):
            self._harvest((self.turn + k) % len(self.hosts))
        return np.stack(self.profiles)
