"""Running flat-field estimate from a camera frame source."""
import cupy as cp
import cupyx
import numpy as np


class FlatFieldEstimator:
    """Keeps the sum and the sum of squares of all frames on the device."""

    SLOTS = 4

    def __init__(self, height, width):
        shape = (height, width)
        self.copy_stream = cp.cuda.Stream(non_blocking=True)
        self.math_stream = cp.cuda.Stream(non_blocking=True)
        self.staging = [cupyx.empty_pinned(shape, dtype=np.float32) for _ in range(self.SLOTS)]
        with self.copy_stream:
            self.frames = [cp.empty(shape, dtype=cp.float32) for _ in range(self.SLOTS)]
        self.arrived = [cp.cuda.Event(disable_timing=True) for _ in range(self.SLOTS)]
        self.released = [cp.cuda.Event(disable_timing=True) for _ in range(self.SLOTS)]
        with self.math_stream:
            self.first = cp.zeros(shape, dtype=cp.float32)
            self.second = cp.zeros(shape, dtype=cp.float32)
        self.seen = 0

    def _next_slot(self):
        slot = self.seen % self.SLOTS
        self.seen += 1
        return slot

    def add(self, frame):
        slot = self._next_slot()
        self.arrived[slot].synchronize()
        np.copyto(self.staging[slot], frame, casting="unsafe")
        self.copy_stream.wait_event(self.released[slot])
        self.arrived[slot].record(self.copy_stream)
        self.frames[slot].set(self.staging[slot], stream=self.copy_stream)
        self.math_stream.wait_event(self.arrived[slot])
        with self.math_stream:
            self.first += self.frames[slot]
            self.second += self.frames[slot] * self.frames[slot]
        self.released[slot].record(self.math_stream)

    def finish(self):
        with self.math_stream:
            mean = self.first / self.seen
            var = self.second / self.seen - mean * mean
            out = mean.get(), var.get()
        self.math_stream.synchronize()
        return out


def run(frame_count=200, height=2048, width=2048):
    rng = np.random.default_rng(11)
    estimator = FlatFieldEstimator(height, width)
    for _ in range(frame_count):
        estimator.add(rng.integers(0, 4096, size=(height, width), dtype=np.uint16))
    mean, var = estimator.finish()
    return float(mean.mean()), float(var.mean())


if __name__ == "__main__":
    print(run())
