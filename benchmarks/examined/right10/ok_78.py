"""Leases on page-locked blocks; dropping a lease waits for the copies that used it."""
from __future__ import annotations

import cupy as cp
import numpy as np


class Lease:
    def __init__(self, pool: "LeasePool", index: int):
        self._pool = pool
        self._index = index
        self._events: list[cp.cuda.Event] = []

    @property
    def array(self) -> np.ndarray:
        return self._pool.blocks[self._index]

    def copy_to(self, dst: cp.ndarray, stream: cp.cuda.Stream):
        n = dst.size
        dst.data.copy_from_host_async(self.array.ctypes.data, n * dst.itemsize, stream)
        self._events.append(stream.record(cp.cuda.Event(disable_timing=True)))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for ev in self._events:
            ev.synchronize()
        self._events.clear()
        self._pool.free.append(self._index)


class LeasePool:
    def __init__(self, count: int, n: int):
        self.blocks = []
        for _ in range(count):
            mem = cp.cuda.alloc_pinned_memory(n * 4)
            self.blocks.append(np.frombuffer(mem, np.float32, n))
        self.free = list(range(count))

    def lease(self) -> Lease:
        return Lease(self, self.free.pop())


class Accumulator:
    def __init__(self, n: int, ways: int):
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(ways)]
        self.parts = []
        for s in self.streams:
            with s:
                self.parts.append((cp.empty(n, cp.float32), cp.zeros(n, cp.float32)))

    def add(self, lease: Lease):
        for s, (tmp, acc) in zip(self.streams, self.parts):
            lease.copy_to(tmp, s)
            with s:
                acc += tmp

    def total(self) -> np.ndarray:
        hosts = []
        for s, (_, acc) in zip(self.streams, self.parts):
            h = acc.get(stream=s)
            s.synchronize()
            hosts.append(h)
        return np.sum(hosts, axis=0)


def main(n=1 << 18):
    rng = np.random.default_rng(9)
    pool, acc = LeasePool(2, n), Accumulator(n, 3)
    for _ in range(30):
        with pool.lease() as a, pool.lease() as b:
            rng.random(out=a.array, dtype=np.float32)
            acc.add(a)
            rng.random(out=b.array, dtype=np.float32)
            acc.add(b)
    print(acc.total().mean())


if __name__ == "__main__":
    main()
