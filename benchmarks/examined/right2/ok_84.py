"""Uploads whose staging memory is recycled by finalizers."""
import threading
import weakref
from collections import defaultdict

import cupy as cp
import numpy as np


class PinnedPool:
    def __init__(self):
        self._lock = threading.Lock()
        self._free = defaultdict(list)

    def acquire(self, nbytes):
        with self._lock:
            if self._free[nbytes]:
                return self._free[nbytes].pop()
        return cp.cuda.alloc_pinned_memory(nbytes)

    def reclaim(self, nbytes, block, event):
        event.synchronize()
        with self._lock:
            self._free[nbytes].append(block)


class Upload:
    """A host array on its way to the device."""

    def __init__(self, pool, host, uploader, compute):
        self._compute = compute
        block = pool.acquire(host.nbytes)
        staged = np.frombuffer(block, host.dtype, host.size).reshape(host.shape)
        staged[...] = host
        with compute:
            self._dev = cp.empty(host.shape, dtype=host.dtype)
            allocated = compute.record()
        uploader.wait_event(allocated)
        self._dev.set(staged, stream=uploader)
        self._ready = uploader.record()
        weakref.finalize(self, pool.reclaim, host.nbytes, block, self._ready)

    @property
    def array(self):
        self._compute.wait_event(self._ready)
        return self._dev


class Histogrammer:
    def __init__(self, bins):
        self.pool = PinnedPool()
        self.uploader = cp.cuda.Stream(non_blocking=True)
        self.compute = cp.cuda.Stream(non_blocking=True)
        with self.compute:
            self.counts = cp.zeros(bins, dtype=cp.int64)

    def prefetch(self, codes):
        return Upload(self.pool, codes, self.uploader, self.compute)

    def add(self, upload):
        with self.compute:
            self.counts += cp.bincount(upload.array, minlength=self.counts.size)

    def result(self):
        host = self.counts.get(stream=self.compute)
        self.compute.synchronize()
        return host


def main(batches=24, size=1 << 18, bins=128):
    rng = np.random.default_rng(4)
    histogram = Histogrammer(bins)
    ahead = histogram.prefetch(rng.integers(0, bins, size, dtype=np.int32))
    for _ in range(batches):
        current = ahead
        ahead = histogram.prefetch(rng.integers(0, bins, size, dtype=np.int32))
        histogram.add(current)
    return histogram.result()


if __name__ == "__main__":
    print(main().sum())
