"""Envelope of ultrasound lines as a generator with a few lines in flight."""
from collections import deque

import cupy as cp
import cupyx
import numpy as np

SAMPLES = 8192
LINES = 256


class Slot:
    def __init__(self):
        self.rf = cupyx.empty_pinned((LINES, SAMPLES), np.float32)
        self.env = cupyx.empty_pinned((LINES, SAMPLES), np.float32)
        self.event = cp.cuda.Event(disable_timing=True)


def envelopes(frames, depth=3):
    stream = cp.cuda.Stream(non_blocking=True)
    slots = [Slot() for _ in range(depth)]
    pending = deque()

    def finish():
        slot = pending.popleft()
        slot.event.synchronize()
        return slot.env.copy()

    for number, frame in enumerate(frames):
        if len(pending) == depth:
            yield finish()
        slot = slots[number % depth]
        slot.rf[...] = frame
        with stream:
            rf = cp.empty((LINES, SAMPLES), cp.float32)
            rf.set(slot.rf, stream=stream)
            quadrature = rf - cp.roll(rf, 2, axis=1)
            cp.hypot(rf, quadrature).get(stream=stream, out=slot.env, blocking=False)
        slot.event.record(stream)
        pending.append(slot)
    while pending:
        yield finish()


def main():
    rng = np.random.default_rng(27)
    source = (rng.standard_normal((LINES, SAMPLES), dtype=np.float32) for _ in range(40))
    print(max(float(image.max()) for image in envelopes(source)))


if __name__ == "__main__":
    main()
