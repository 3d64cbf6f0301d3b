"""Sliding-window energy detector on Numba: the accumulator is cleared on the default stream."""
import math

import numpy as np
from numba import cuda, float32


@cuda.jit
def clear(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] = 0.0


@cuda.jit
def window_energy(signal, start, length, out):
    tile = cuda.shared.array(256, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    tile[t] = signal[start + i] * signal[start + i] if i < length else float32(0.0)
    cuda.syncthreads()
    half = 128
    while half > 0:
        if t < half:
            tile[t] += tile[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(out, 0, tile[0])


@cuda.jit
def dc_block(src, dst, alpha, n):
    i = cuda.grid(1)
    if 0 < i < n:
        dst[i] = src[i] - alpha * src[i - 1]
    elif i == 0:
        dst[0] = src[0]


class Accumulator:
    def __init__(self, size):
        self.dev = cuda.device_array(size, np.float32)

    def reset(self):
        clear[1, 32](self.dev)

    def value(self):
        return float(self.dev.copy_to_host()[0])


class EnergyDetector:
    def __init__(self, block_len, window):
        self.block_len, self.window = block_len, window
        self.work = cuda.stream()
        self.host = cuda.pinned_array(block_len, np.float32)
        self.raw = cuda.device_array(block_len, np.float32)
        self.clean = cuda.device_array(block_len, np.float32)
        self.energy = Accumulator(1)
        self.tpb = 256

    def load(self, samples):
        self.host[:] = samples
        self.raw.copy_to_device(self.host, stream=self.work)
        blocks = math.ceil(self.block_len / self.tpb)
        dc_block[blocks, self.tpb, self.work](self.raw, self.clean, float32(0.97), self.block_len)

    def windows(self):
        blocks = math.ceil(self.window / self.tpb)
        for start in range(0, self.block_len - self.window + 1, self.window):
            self.energy.reset()
            window_energy[blocks, self.tpb, self.work](self.clean, start, self.window, self.energy.dev)
            yield start, self.energy.value() / self.window

    def detect(self, samples, threshold):
        self.load(samples)
        return [(s, e) for s, e in self.windows() if e > threshold]


def noise_with_bursts(n, bursts, rng):
    x = rng.standard_normal(n).astype(np.float32) * 0.1
    for b in bursts:
        x[b:b + 4096] += np.sin(np.arange(4096) * 0.8).astype(np.float32)
    return x


def main():
    rng = np.random.default_rng(11)
    det = EnergyDetector(block_len=1 << 20, window=4096)
    for k in range(4):
        bursts = rng.integers(0, (1 << 20) - 4096, 5)
        hits = det.detect(noise_with_bursts(1 << 20, bursts, rng), threshold=0.1)
        print("block", k, "hits", [h[0] for h in hits][:8])


if __name__ == "__main__":
    main()
