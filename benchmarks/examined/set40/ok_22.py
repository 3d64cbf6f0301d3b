"""Histogram of normalised slabs with a two-entry ring of work arrays."""
import cupy as cp
import numpy as np


normalise = cp.ElementwiseKernel(
    "float32 v, float32 lo, float32 gain",
    "float32 out",
    "out = (v - lo) * gain;",
    "normalise",
)


class Slot:
    def __init__(self, shape):
        self.data = cp.empty(shape, dtype=cp.float32)
        self.filled = cp.cuda.Event(disable_timing=True)
        self.drained = cp.cuda.Event(disable_timing=True)
        self.used = False


class SlabHistogram:
    def __init__(self, volume, depth, bins, lo, hi):
        self.volume = volume
        self.depth = depth
        self.lo = np.float32(lo)
        self.gain = np.float32(1.0 / (hi - lo))
        self.fill = cp.cuda.Stream(non_blocking=True)
        self.count = cp.cuda.Stream(non_blocking=True)
        shape = (depth,) + volume.shape[1:]
        self.ring = [Slot(shape) for _ in range(2)]
        with self.count:
            self.edges = cp.linspace(0.0, 1.0, bins + 1, dtype=cp.float32)
            self.hist = cp.zeros(bins, dtype=cp.int64)
        self.turn = 0

    def add(self, z0):
        slot = self.ring[self.turn % 2]
        self.turn += 1
        if slot.used:
            self.fill.wait_event(slot.drained)
        with self.fill:
            normalise(self.volume[z0:z0 + self.depth], self.lo, self.gain, slot.data)
            slot.filled.record(self.fill)
        self.count.wait_event(slot.filled)
        with self.count:
            part, _ = cp.histogram(slot.data, bins=self.edges)
            self.hist += part
            slot.drained.record(self.count)
        slot.used = True

    def result(self):
        out = self.hist.get(stream=self.count)
        self.count.synchronize()
        return out


def main(nz=256, depth=16, bins=128):
    volume = cp.random.standard_normal((nz, 512, 512), dtype=cp.float32)
    cp.cuda.Device().synchronize()
    acc = SlabHistogram(volume, depth, bins, lo=-4.0, hi=4.0)
    for z0 in range(0, nz - depth + 1, depth):
        acc.add(z0)
    hist = acc.result()
    print("total", int(hist.sum()), "mode bin", int(np.argmax(hist)))


if __name__ == "__main__":
    main()
