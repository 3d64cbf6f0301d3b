"""Numba histogrammer: chunks go up through two pinned slots, counts come down once per chunk."""
import numpy as np
from numba import cuda

NBINS = 256


@cuda.jit
def histogram(data, bins):
    i = cuda.grid(1)
    if i < data.size:
        cuda.atomic.add(bins, data[i], 1)


@cuda.jit
def clear(bins):
    i = cuda.grid(1)
    if i < bins.size:
        bins[i] = 0


class Slot:
    def __init__(self, chunk):
        self.stream = cuda.stream()
        self.h_in = cuda.pinned_array(chunk, dtype=np.uint8)
        self.h_out = cuda.pinned_array(NBINS, dtype=np.int32)
        self.d_in = cuda.device_array(chunk, dtype=np.uint8)
        self.d_bins = cuda.device_array(NBINS, dtype=np.int32)
        self.done = cuda.event(timing=False)
        self.pending = False

    def submit(self, block):
        n = block.size
        self.h_in[:n] = block
        view = self.d_in[:n]
        view.copy_to_device(self.h_in[:n], stream=self.stream)
        clear[1, NBINS, self.stream](self.d_bins)
        histogram[(n + 255) // 256, 256, self.stream](view, self.d_bins)
        self.d_bins.copy_to_host(self.h_out, stream=self.stream)
        self.done.record(self.stream)
        self.pending = True

    def collect(self, totals):
        if self.pending:
            self.done.synchronize()
            totals += self.h_out
            self.pending = False


class Histogrammer:
    def __init__(self, chunk=1 << 20, depth=2):
        self.chunk = chunk
        self.slots = [Slot(chunk) for _ in range(depth)]

    def __call__(self, data):
        totals = np.zeros(NBINS, dtype=np.int64)
        for k, start in enumerate(range(0, data.size, self.chunk)):
            slot = self.slots[k % len(self.slots)]
            slot.collect(totals)
            slot.submit(data[start:start + self.chunk])
        for slot in self.slots:
            slot.collect(totals)
        return totals


if __name__ == "__main__":
    raw = np.random.default_rng(0).integers(0, 256, size=10_000_000, dtype=np.uint8)
    h = Histogrammer()
    for _ in range(3):
        assert (h(raw) == np.bincount(raw, minlength=256)).all()
