"""Sort-spill: each run remembers the stream that made it, and is evicted on that stream."""
import cupy as cp
import cupyx
import numpy as np


class Run:
    def __init__(self, keys, stream):
        self.keys = keys
        self.stream = stream
        self.host = None

    @property
    def nbytes(self):
        return 0 if self.keys is None else self.keys.nbytes

    def evict(self):
        host = cupyx.empty_pinned(self.keys.shape, dtype=self.keys.dtype)
        self.keys.get(stream=self.stream, out=host, blocking=False)
        self.keys = None
        self.host = host
        return self

    def to_numpy(self):
        if self.host is None:
            return self.keys.get(stream=self.stream)
        self.stream.synchronize()
        return self.host


class RunStore:
    def __init__(self, limit):
        self.limit = limit
        self.runs = []

    def add(self, run):
        self.runs.append(run)
        total = sum(r.nbytes for r in self.runs)
        for r in self.runs:
            if total <= self.limit:
                break
            if r.keys is not None:
                total -= r.nbytes
                r.evict()


class Sorter:
    def __init__(self, workers, limit):
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(workers)]
        self.store = RunStore(limit)
        self.next = 0

    def feed(self, chunk):
        stream = self.streams[self.next % len(self.streams)]
        self.next += 1
        with stream:
            keys = cp.array(chunk)
            keys ^= cp.uint32(0x80000000)
            keys.sort()
            keys ^= cp.uint32(0x80000000)
            self.store.add(Run(keys, stream))

    def merge(self):
        heads = [r.to_numpy() for r in self.store.runs]
        out = heads[0]
        for h in heads[1:]:
            merged = np.empty(out.size + h.size, dtype=out.dtype)
            pos = np.searchsorted(out, h, side="right") + np.arange(h.size)
            mask = np.ones(merged.size, dtype=bool)
            mask[pos] = False
            merged[pos] = h
            merged[mask] = out
            out = merged
        return out


def chunks(n, size):
    rng = np.random.default_rng(5)
    for _ in range(n):
        yield rng.integers(0, 1 << 31, size=size, dtype=np.uint32)


def main():
    sorter = Sorter(workers=3, limit=24 << 20)
    for c in chunks(12, 1 << 20):
        sorter.feed(c)
    out = sorter.merge()
    print(out.size, bool((np.diff(out.astype(np.int64)) >= 0).all()))


if __name__ == "__main__":
    main()
