"""Histogram of a long signal, loaded chunk by chunk."""
from collections import namedtuple

import numpy as np
from numba import cuda

Slot = namedtuple("Slot", "host dev loaded used")
TPB = 128


@cuda.jit
def accumulate(chunk, counts, lo, width):
    i = cuda.grid(1)
    if i < chunk.size:
        b = int((chunk[i] - lo) / width)
        if 0 <= b < counts.size:
            cuda.atomic.add(counts, b, 1)


def make_slot(n):
    return Slot(
        cuda.pinned_array(n, np.float32),
        cuda.device_array(n, np.float32),
        cuda.event(timing=False),
        cuda.event(timing=False),
    )


def staged(chunks, n, depth, copy, compute):
    slots = {i: make_slot(n) for i in range(depth)}
    for k, chunk in enumerate(chunks):
        slot = slots[k % depth]
        slot.loaded.synchronize()
        slot.host[:] = chunk
        slot.used.wait(copy)
        slot.dev.copy_to_device(slot.host, stream=copy)
        slot.loaded.record(copy)
        slot.loaded.wait(compute)
        yield slot.dev
        slot.used.record(compute)
    compute.synchronize()


def histogram(chunks, n, bins=64, lo=-4.0, hi=4.0):
    copy, compute = cuda.stream(), cuda.stream()
    counts = cuda.to_device(np.zeros(bins, np.int64), stream=compute)
    width = (hi - lo) / bins
    for dev in staged(chunks, n, 2, copy, compute):
        accumulate[(n + TPB - 1) // TPB, TPB, compute](dev, counts, lo, width)
    result = counts.copy_to_host(stream=compute)
    compute.synchronize()
    return result


if __name__ == "__main__":
    rng = np.random.default_rng(7)
    N = 1 << 20
    print(histogram((rng.standard_normal(N).astype(np.float32) for _ in range(12)), N))
