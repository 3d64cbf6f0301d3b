"""Dictionary-encoded string column: codes on the device, small answers on the host."""
import bisect

import cupy as cp
import cupyx
import numpy as np


class Category:
    def __init__(self, strings):
        keys = sorted(set(strings))
        self.keys = keys
        where = {k: i for i, k in enumerate(keys)}
        codes = cupyx.empty_pinned(len(strings), dtype=np.int32)
        codes[:] = [where[s] for s in strings]
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.codes = cp.empty(len(strings), dtype=cp.int32)
            self.codes.set(codes, stream=self.stream)
            self.counts = cp.bincount(self.codes, minlength=len(keys)).astype(cp.int32)
        self.stream.synchronize()
        self._scratch = cupyx.empty_pinned(2, dtype=np.int32)

    def __len__(self):
        return int(self.codes.size)

    def _fetch(self, array, offset, slot, count=1):
        itemsize = array.dtype.itemsize
        cp.cuda.runtime.memcpyAsync(
            self._scratch.ctypes.data + slot * self._scratch.itemsize,
            array.data.ptr + offset * itemsize,
            count * itemsize,
            cp.cuda.runtime.memcpyDeviceToHost,
            self.stream.ptr,
        )

    def lookup(self, row):
        """Key of one row."""
        if not 0 <= row < len(self):
            return None
        self._fetch(self.codes, row, 0)
        code = int(self._scratch[0])
        return self.keys[code]

    def frequency(self, key):
        pos = bisect.bisect_left(self.keys, key)
        if pos == len(self.keys) or self.keys[pos] != key:
            return 0
        self._fetch(self.counts, pos, 0)
        self.stream.synchronize()
        return int(self._scratch[0])

    def bounds(self, first, last):
        """Smallest and largest key among rows first..last."""
        with self.stream:
            part = self.codes[first : last + 1]
            lo_hi = cp.stack([part.min(), part.max()]).astype(cp.int32)
        self._fetch(lo_hi, 0, 0, count=2)
        lo, hi = self._scratch.tolist()
        return self.keys[lo], self.keys[hi]

    def remap(self, table):
        fresh = cupyx.empty_pinned(len(self.keys), dtype=np.int32)
        fresh[:] = [table.get(k, i) for i, k in enumerate(self.keys)]
        with self.stream:
            lut = cp.empty(fresh.shape, dtype=cp.int32)
            lut.set(fresh, stream=self.stream)
            self.codes = lut[self.codes]
            self.counts = cp.bincount(self.codes, minlength=len(self.keys)).astype(cp.int32)
        self.stream.synchronize()


def report(column, windows):
    cat = Category(column)
    lines = []
    for first, last in windows:
        lo, hi = cat.bounds(first, last)
        lines.append(f"{cat.lookup(first)}: {lo} .. {hi} ({cat.frequency(hi)})")
    return lines
