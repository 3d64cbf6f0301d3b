"""Numba beamformer mixing default-stream steps with per-antenna streams."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def delay_and_scale(x, out, delay, gain):
    i = cuda.grid(1)
    if i < out.size:
        j = i - delay
        out[i] = gain * x[j] if j >= 0 else 0.0


@cuda.jit
def sum_rows(rows, out):
    i = cuda.grid(1)
    if i < out.size:
        acc = 0.0
        for r in range(rows.shape[0]):
            acc += rows[r, i]
        out[i] = acc


@cuda.jit
def normalize(x, scale):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= scale


class Beamformer:
    def __init__(self, antennas, samples):
        self.n = samples
        self.blocks = math.ceil(samples / 256)
        self.streams = [cuda.stream() for _ in range(antennas)]
        self.delayed = cuda.device_array((antennas, samples), np.float32)
        self.beam = cuda.device_array(samples, np.float32)

    def form(self, signal, delays):
        d_signal = cuda.to_device(signal)
        normalize[self.blocks, 256](d_signal, 1.0 / float(np.abs(signal).max()))
        for a, s in enumerate(self.streams):
            delay_and_scale[self.blocks, 256, s](d_signal, self.delayed[a], delays[a], 1.0)
        sum_rows[self.blocks, 256](self.delayed, self.beam)
        return self.beam.copy_to_host()


if __name__ == "__main__":
    bf = Beamformer(8, 1 << 16)
    t = np.linspace(0, 50, 1 << 16).astype(np.float32)
    for angle in range(4):
        print(bf.form(np.sin(t), [angle * a for a in range(8)])[:3])
