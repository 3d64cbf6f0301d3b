"""Block energy detector for an SDR front end (Numba CUDA, zero-copy buffers)."""
import math
from collections import deque

import numpy as np
from numba import cuda

BLOCK = 1 << 16
SEGMENTS = 64


@cuda.jit
def segment_power(iq, power, seg_len):
    s = cuda.grid(1)
    if s < power.size:
        acc = 0.0
        for k in range(seg_len):
            v = iq[s * seg_len + k]
            acc += v.real * v.real + v.imag * v.imag
        power[s] = acc / seg_len


@cuda.jit
def rotate(iq, step):
    i = cuda.grid(1)
    if i < iq.size:
        ph = step * i
        iq[i] = iq[i] * complex(math.cos(ph), math.sin(ph))


class SharedBuffers:
    """Host-visible buffers the device reaches over the bus."""

    def __init__(self, n, segments):
        self.iq = cuda.mapped_array(n, dtype=np.complex64)
        self.power = cuda.mapped_array(segments, dtype=np.float32)
        self.iq[:] = 0
        self.power[:] = 0


class EnergyDetector:
    def __init__(self, n=BLOCK, segments=SEGMENTS, history=32):
        self.stream = cuda.stream()
        self.buf = SharedBuffers(n, segments)
        self.seg_len = n // segments
        self.n = n
        self.floor = deque(maxlen=history)
        self.offset = 0.0

    def tune(self, cycles_per_sample):
        self.offset = 2.0 * math.pi * cycles_per_sample

    def load(self, block):
        self.buf.iq[:] = block

    def launch(self):
        threads = 256
        if self.offset:
            rotate[(self.n + threads - 1) // threads, threads, self.stream](
                self.buf.iq, np.float32(self.offset)
            )
        segment_power[1, self.buf.power.size, self.stream](
            self.buf.iq, self.buf.power, self.seg_len
        )

    def decide(self):
        level = np.sort(np.array(self.buf.power, copy=True))
        med = float(level[level.size // 2])
        self.floor.append(med)
        ref = sum(self.floor) / len(self.floor)
        return bool(level[-1] > 6.0 * ref), float(level[-1]), ref

    def run(self, block):
        self.load(block)
        self.launch()
        return self.decide()


def source(count, n, seed=0):
    rng = np.random.default_rng(seed)
    for t in range(count):
        x = rng.normal(size=n) + 1j * rng.normal(size=n)
        if t % 5 == 4:
            x[n // 2: n // 2 + n // 32] += 8.0
        yield x.astype(np.complex64)


def main():
    det = EnergyDetector()
    det.tune(0.0125)
    found = []
    for t, block in enumerate(source(40, BLOCK)):
        hit, peak, ref = det.run(block)
        if hit:
            found.append((t, peak / ref))
    print("bursts:", found)
    cuda.synchronize()


if __name__ == "__main__":
    main()
