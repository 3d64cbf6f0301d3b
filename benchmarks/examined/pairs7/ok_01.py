"""Averaged power spectra of frames that arrive from a digitizer."""
from dataclasses import dataclass, field

import cupy as cp
import cupyx
import numpy as np

NFFT = 1 << 16


def _event():
    return cp.cuda.Event(disable_timing=True)


@dataclass
class Lane:
    host: np.ndarray = field(default_factory=lambda: cupyx.empty_pinned(NFFT, np.float32))
    dev: cp.ndarray = field(default_factory=lambda: cp.empty(NFFT, cp.float32))
    landed: cp.cuda.Event = field(default_factory=_event)
    consumed: cp.cuda.Event = field(default_factory=_event)


class Spectrometer:
    def __init__(self, lanes=3):
        self.upload = cp.cuda.Stream(non_blocking=True)
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.lanes = [Lane() for _ in range(lanes)]
        self.count = 0
        with self.compute:
            self.window = cp.hanning(NFFT).astype(cp.float32)
            self.acc = cp.zeros(NFFT // 2 + 1, cp.float32)

    def push(self, samples):
        lane = self.lanes[self.count % len(self.lanes)]
        lane.landed.synchronize()
        lane.host[:] = samples
        self.upload.wait_event(lane.consumed)
        lane.dev.set(lane.host, stream=self.upload)
        lane.landed.record(self.upload)
        with self.compute:
            self.compute.wait_event(lane.landed)
            spec = cp.fft.rfft(lane.dev * self.window)
            self.acc += cp.abs(spec) ** 2
            lane.consumed.record(self.compute)
        self.count += 1

    def average(self):
        with self.compute:
            return self.acc.get() / self.count


def main():
    spectrometer = Spectrometer()
    rng = np.random.default_rng(0)
    for _ in range(64):
        spectrometer.push(rng.standard_normal(NFFT, dtype=np.float32))
    print(spectrometer.average()[:4])


if __name__ == "__main__":
    main()
