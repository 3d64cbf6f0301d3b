"""Sums of squares over a long signal with two pinned staging areas (Numba)."""
import numpy as np
from numba import cuda


@cuda.jit
def accumulate(block, size, totals):
    lane = cuda.grid(1)
    stride = cuda.gridsize(1)
    acc = 0.0
    for i in range(lane, size, stride):
        acc += block[i] * block[i]
    totals[lane] += acc


@cuda.jit
def clear(totals):
    lane = cuda.grid(1)
    if lane < totals.shape[0]:
        totals[lane] = 0.0


class Half:
    def __init__(self, size):
        self.host = cuda.pinned_array(size, dtype=np.float32)
        self.device = cuda.device_array(size, dtype=np.float32)
        self.sent = cuda.event(timing=False)
        self.used = cuda.event(timing=False)


class EnergyMeter:
    BLOCKS, THREADS = 64, 128

    def __init__(self, chunk=1 << 20):
        self.chunk = chunk
        self.halves = (Half(chunk), Half(chunk))
        self.upload = cuda.stream()
        self.compute = cuda.stream()
        self.totals = cuda.device_array(self.BLOCKS * self.THREADS, dtype=np.float64)
        self.landing = cuda.pinned_array(self.BLOCKS * self.THREADS, dtype=np.float64)
        self.turn = 0
        self.reset()

    def reset(self):
        clear[self.BLOCKS, self.THREADS, self.compute](self.totals)

    def feed(self, signal):
        for start in range(0, len(signal), self.chunk):
            piece = signal[start : start + self.chunk]
            half = self.halves[self.turn]
            self.turn ^= 1
            half.sent.synchronize()
            half.host[: len(piece)] = piece
            half.used.wait(self.upload)
            half.device.copy_to_device(half.host, stream=self.upload)
            half.sent.record(self.upload)
            half.sent.wait(self.compute)
            accumulate[self.BLOCKS, self.THREADS, self.compute](
                half.device, len(piece), self.totals
            )
            half.used.record(self.compute)

    def energy(self):
        self.totals.copy_to_host(self.landing, stream=self.compute)
        self.compute.synchronize()
        return float(self.landing.sum())


def energies(signals):
    meter = EnergyMeter()
    result = []
    for signal in signals:
        meter.reset()
        meter.feed(signal)
        result.append(meter.energy())
    return result
