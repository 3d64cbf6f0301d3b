"""Streams detector frames through Numba kernels with a ring of pinned buffers."""
import numpy as np
from numba import cuda


@cuda.jit
def _calibrate(raw, pedestal, gain, out):
    i = cuda.grid(1)
    if i < raw.size:
        out[i] = (raw[i] - pedestal[i]) * gain[i]


@cuda.jit
def _histogram(values, bins, lo, width):
    i = cuda.grid(1)
    if i < values.size:
        b = int((values[i] - lo) / width)
        if 0 <= b < bins.size:
            cuda.atomic.add(bins, b, 1)


class Slot:
    def __init__(self, n, n_bins):
        self.stream = cuda.stream()
        self.uploaded = cuda.event(timing=False)
        self.host = cuda.pinned_array(n, dtype=np.float32)
        self.raw = cuda.device_array(n, dtype=np.float32, stream=self.stream)
        self.cal = cuda.device_array(n, dtype=np.float32, stream=self.stream)
        self.bins = cuda.to_device(np.zeros(n_bins, dtype=np.int32))
        self.in_flight = False


class FramePipeline:
    def __init__(self, n, n_slots=3, n_bins=256):
        self.n = n
        self.slots = [Slot(n, n_bins) for _ in range(n_slots)]
        self.pedestal = cuda.to_device(np.zeros(n, dtype=np.float32))
        self.gain = cuda.to_device(np.ones(n, dtype=np.float32))
        self.turn = 0

    def push(self, frame):
        slot = self.slots[self.turn % len(self.slots)]
        self.turn += 1
        if slot.in_flight:
            slot.uploaded.synchronize()
        slot.host[:] = frame
        slot.raw.copy_to_device(slot.host, stream=slot.stream)
        slot.uploaded.record(slot.stream)
        slot.in_flight = True
        blocks = (self.n + 255) // 256
        _calibrate[blocks, 256, slot.stream](slot.raw, self.pedestal, self.gain, slot.cal)
        _histogram[blocks, 256, slot.stream](slot.cal, slot.bins, np.float32(0.0), np.float32(1 / 256))

    def histogram(self):
        total = np.zeros(self.slots[0].bins.size, dtype=np.int64)
        for slot in self.slots:
            total += slot.bins.copy_to_host()
        return total


def main():
    rng = np.random.default_rng(1)
    pipe = FramePipeline(1 << 20)
    for _ in range(30):
        pipe.push(rng.random(1 << 20, dtype=np.float32))
    print(pipe.histogram().sum())


if __name__ == "__main__":
    main()
