"""Sliding baseline removal for spectra, a generator with several blocks in flight."""
from collections import deque

import cupy as cp
import cupyx
import numpy as np

BLOCK = (512, 4096)


class Lane:
    def __init__(self):
        self.inp = cupyx.empty_pinned(BLOCK, np.float32)
        self.out = cupyx.empty_pinned(BLOCK, np.float32)
        self.done = cp.cuda.Event(disable_timing=True)


def baseline_free(blocks, lanes=2):
    stream = cp.cuda.Stream(non_blocking=True)
    ring = [Lane() for _ in range(lanes)]
    flying = deque()

    def land():
        lane = flying.popleft()
        lane.done.synchronize()
        return lane.out.copy()

    for index, block in enumerate(blocks):
        if len(flying) > lanes:
            yield land()
        lane = ring[index % lanes]
        np.copyto(lane.inp, block)
        with stream:
            dev = cp.empty(BLOCK, cp.float32)
            dev.set(lane.inp, stream=stream)
            for shift in (1, 3, 9, 27):
                dev -= 0.1 * cp.minimum(cp.roll(dev, shift, 1), cp.roll(dev, -shift, 1))
            dev.get(stream=stream, out=lane.out, blocking=False)
        lane.done.record(stream)
        flying.append(lane)
    while flying:
        yield land()


def main():
    rng = np.random.default_rng(28)
    total = np.zeros(BLOCK, np.float64)
    for spectrum in baseline_free(rng.random(BLOCK, dtype=np.float32) for _ in range(60)):
        total += spectrum
    print(total.mean())


if __name__ == "__main__":
    main()
