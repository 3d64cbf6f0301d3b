"""Flat-field correction and mean image of a camera series."""
import cupy as cp
import cupyx
import numpy as np

H, W = 2048, 2448


class Buffers:
    def __init__(self):
        self.host = cupyx.empty_pinned((H, W), np.uint16)
        self.raw = cp.empty((H, W), cp.uint16)
        self.arrived = cp.cuda.Event(disable_timing=True)


class FlatFieldMean:
    """Keeps a running sum of corrected frames on the device."""

    def __init__(self, flat, depth=2):
        self.copy_stream = cp.cuda.Stream(non_blocking=True)
        self.math_stream = cp.cuda.Stream(non_blocking=True)
        self.ring = [Buffers() for _ in range(depth)]
        self.frames = 0
        with self.math_stream:
            self.gain = 1.0 / cp.asarray(flat, dtype=cp.float32)
            self.total = cp.zeros((H, W), cp.float32)

    def add(self, frame):
        buf = self.ring[self.frames % len(self.ring)]
        buf.arrived.synchronize()
        np.copyto(buf.host, frame)
        buf.raw.set(buf.host, stream=self.copy_stream)
        buf.arrived.record(self.copy_stream)
        with self.math_stream:
            self.math_stream.wait_event(buf.arrived)
            corrected = buf.raw.astype(cp.float32) * self.gain
            self.total += cp.clip(corrected, 0.0, 65535.0)
        self.frames += 1

    def mean(self):
        with self.math_stream:
            return self.total.get() / max(self.frames, 1)


def main():
    rng = np.random.default_rng(7)
    flat = rng.uniform(0.9, 1.1, (H, W)).astype(np.float32)
    series = FlatFieldMean(flat)
    for _ in range(200):
        series.add(rng.integers(0, 4096, (H, W), dtype=np.uint16))
    print(series.mean().mean())


if __name__ == "__main__":
    main()
