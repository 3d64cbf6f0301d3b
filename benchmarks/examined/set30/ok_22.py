"""Frame ingest over four pinned slots; completion is tracked once per pair of slots."""
import math

import numpy as np
from numba import cuda

SLOTS = 4
PAIR = 2


@cuda.jit
def accumulate(frame, weight, total):
    i = cuda.grid(1)
    if i < frame.size:
        total[i] += weight * frame[i]


class FrameIngest:
    def __init__(self, pixels):
        self.pixels = pixels
        self.stream = cuda.stream()
        self.staging = [cuda.pinned_array(pixels, dtype=np.float32) for _ in range(SLOTS)]
        self.frames = [cuda.device_array(pixels, dtype=np.float32) for _ in range(PAIR)]
        self.total = cuda.to_device(np.zeros(pixels, dtype=np.float32))
        self.passed = [cuda.event(timing=False) for _ in range(SLOTS // PAIR)]
        self.marked = [False] * (SLOTS // PAIR)
        self.count = 0
        self.threads = 256
        self.blocks = math.ceil(pixels / self.threads)

    def push(self, frame, weight=1.0):
        slot = self.count % SLOTS
        pair, first = slot // PAIR, slot % PAIR == 0
        if first and self.marked[pair]:
            self.passed[pair].synchronize()
        host = self.staging[slot]
        host[:] = frame
        dev = self.frames[slot % PAIR]
        dev.copy_to_device(host, stream=self.stream)
        accumulate[self.blocks, self.threads, self.stream](
            dev, np.float32(weight), self.total
        )
        if not first:
            self.passed[pair].record(self.stream)
            self.marked[pair] = True
        self.count += 1

    def mean(self):
        out = cuda.pinned_array(self.pixels, dtype=np.float32)
        self.total.copy_to_host(out, stream=self.stream)
        self.stream.synchronize()
        return out / max(1, self.count)


def run(source, pixels, limit):
    ingest = FrameIngest(pixels)
    for index, frame in enumerate(source):
        if index == limit:
            break
        ingest.push(frame, 0.5 if index % 2 else 1.5)
    return ingest.mean()


def synthetic(pixels, seed=3):
    rng = np.random.default_rng(seed)
    while True:
        yield rng.random(pixels, dtype=np.float32)


if __name__ == "__main__":
    print(run(synthetic(1 << 22), 1 << 22, 64).mean())
