"""Eviction of embedding rows: a host function stores them behind the D2H."""
import threading

import cupy as cp
import cupyx
import numpy as np


class EvictSlot:
    def __init__(self, rows, dim):
        self.ids = cupyx.empty_pinned((rows,), np.int64)
        self.values = cupyx.empty_pinned((rows, dim), np.float32)
        self.free = threading.Event()
        self.free.set()


class KVStore:
    def __init__(self):
        self._rows = {}
        self._lock = threading.Lock()

    def put(self, slot):
        with self._lock:
            for i, key in enumerate(slot.ids):
                self._rows[int(key)] = slot.values[i].copy()
        slot.free.set()

    def __len__(self):
        with self._lock:
            return len(self._rows)


class CachedEmbedding:
    def __init__(self, capacity, dim, evict_rows):
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.evict = cp.cuda.Stream(non_blocking=True)
        with self.compute:
            self.cache = cp.zeros((capacity, dim), cp.float32)
        self.store = KVStore()
        self.slots = [EvictSlot(evict_rows, dim) for _ in range(2)]
        self.turn = 0
        self.copied = cp.cuda.Event(disable_timing=True)
        self._held = []

    def update(self, rows, lr):
        with self.compute:
            self.compute.wait_event(self.copied)
            self.cache[rows] += lr * cp.ones((len(rows), self.cache.shape[1]), cp.float32)

    def evict_rows(self, rows):
        slot = self.slots[self.turn]
        self.turn ^= 1
        slot.free.wait()
        slot.free.clear()
        with self.compute:
            values = self.cache[rows]
            ready = self.compute.record()
        self.evict.wait_event(ready)
        rows.get(stream=self.evict, out=slot.ids, blocking=False)
        values.get(stream=self.evict, out=slot.values, blocking=False)
        self.copied.record(self.evict)
        self._held.append((rows, values))
        self.evict.launch_host_func(self.store.put, slot)

    def flush(self):
        self.evict.synchronize()
        self._held.clear()


def main():
    emb = CachedEmbedding(1 << 16, 128, 512)
    rng = np.random.default_rng(0)
    emb.copied.record(emb.evict)
    for step in range(40):
        with emb.compute:
            rows = cp.asarray(rng.choice(1 << 16, 512, replace=False))
        emb.update(rows, 0.1)
        emb.evict_rows(rows)
    emb.flush()
    print(len(emb.store))


if __name__ == "__main__":
    main()
