"""Overlap-add convolution reverb, block by block (CuPy)."""
import argparse

import cupy as cp
import cupyx
import numpy as np


class Reverb:
    """Convolves a stream of blocks with a long impulse response."""

    def __init__(self, impulse, block):
        self.block = block
        self.size = 1 << int(np.ceil(np.log2(block + len(impulse) - 1)))
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host_in = cupyx.empty_pinned((block,), dtype=np.float32)
        self.host_out = cupyx.empty_pinned((block,), dtype=np.float32)
        with self.stream:
            padded = cp.zeros(self.size, dtype=cp.float32)
            padded[: len(impulse)] = cp.asarray(impulse, dtype=cp.float32)
            self.response = cp.fft.rfft(padded)
            self.tail = cp.zeros(self.size, dtype=cp.float32)
            self.dry = cp.empty(block, dtype=cp.float32)
        self.gain = 1.0

    def set_gain(self, gain):
        self.gain = float(gain)

    def _spectral(self):
        x = cp.zeros(self.size, dtype=cp.float32)
        x[: self.block] = self.dry
        y = cp.fft.irfft(cp.fft.rfft(x) * self.response, n=self.size)
        self.tail += y.astype(cp.float32)

    def _emit(self):
        out = self.tail[: self.block] * cp.float32(self.gain)
        out.get(out=self.host_out, stream=self.stream)
        rest = self.tail[self.block:].copy()
        self.tail[: -self.block] = rest
        self.tail[-self.block:] = 0

    def push(self, samples):
        self.host_in[:] = samples
        self.dry.set(self.host_in, stream=self.stream)
        with self.stream:
            self._spectral()
            self._emit()

    def pull(self):
        self.stream.synchronize()
        return self.host_out.copy()

    def process(self, samples):
        self.push(samples)
        return self.pull()


class Limiter:
    def __init__(self, ceiling=0.98):
        self.ceiling = ceiling
        self.peak = 0.0

    def __call__(self, y):
        p = float(np.abs(y).max())
        self.peak = max(self.peak, p)
        return y * (self.ceiling / p) if p > self.ceiling else y


def impulse_response(seconds, rate):
    n = int(seconds * rate)
    rng = np.random.default_rng(4)
    decay = np.exp(-np.linspace(0.0, 8.0, n))
    h = rng.normal(size=n) * decay
    h[0] = 1.0
    return (h / np.abs(h).sum()).astype(np.float32)


def music(blocks, n, rate):
    for b in range(blocks):
        t = (b * n + np.arange(n)) / rate
        yield (0.4 * np.sin(2 * np.pi * 220 * t) * (np.sin(2 * np.pi * 2 * t) > 0)).astype(np.float32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rate", type=int, default=48000)
    ap.add_argument("--block", type=int, default=2048)
    ap.add_argument("--blocks", type=int, default=200)
    args = ap.parse_args()

    verb = Reverb(impulse_response(3.0, args.rate), args.block)
    limit = Limiter()
    energy = 0.0
    for k, x in enumerate(music(args.blocks, args.block, args.rate)):
        verb.set_gain(0.5 + 0.5 * min(1.0, k / 50))
        y = limit(verb.process(x))
        energy += float(np.square(y).sum())
    print("peak", limit.peak, "energy", energy)


if __name__ == "__main__":
    main()
