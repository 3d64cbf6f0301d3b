"""Weakly cached device tables: built once on a loader stream, users wait the build event."""
import weakref

import cupy as cp
import numpy as np
from cupyx.scipy.ndimage import convolve1d


class Table:
    def __init__(self, data, built, home):
        self.data, self.built, self.home = data, built, home

    def on(self, stream):
        stream.wait_event(self.built)
        return self.data

    def used(self, stream):
        self.home.wait_event(stream.record())


class TableCache:
    def __init__(self):
        self.loader = cp.cuda.Stream(non_blocking=True)
        self._tables = weakref.WeakValueDictionary()

    def get(self, taps):
        table = self._tables.get(taps)
        if table is None:
            with self.loader:
                n = cp.arange(taps, dtype=cp.float32) - (taps - 1) / 2
                h = cp.sinc(n / 4) * cp.hamming(taps).astype(cp.float32)
                table = Table(h / h.sum(), self.loader.record(), self.loader)
            table.built = self.loader.record()
            self._tables[taps] = table
        return table


class Filter:
    def __init__(self, cache, taps):
        self.cache, self.taps = cache, taps
        self.stream = cp.cuda.Stream(non_blocking=True)

    def __call__(self, signal):
        table = self.cache.get(self.taps)
        h = table.on(self.stream)
        try:
            with self.stream:
                y = convolve1d(cp.asarray(signal), h)
                return cp.square(y).mean()
        finally:
            table.used(self.stream)

    def read(self, values):
        with self.stream:
            return [float(v) for v in values]


def main():
    cache = TableCache()
    rng = np.random.default_rng(2)
    filters = [Filter(cache, t) for t in (31, 63, 31)]
    outs = {id(f): [] for f in filters}
    for _ in range(5):
        sig = rng.standard_normal(1 << 15).astype(np.float32)
        for f in filters:
            outs[id(f)].append(f(sig))
    return [f.read(outs[id(f)]) for f in filters]


if __name__ == "__main__":
    print(main())
