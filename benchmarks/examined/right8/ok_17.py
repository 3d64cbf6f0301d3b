"""Numba reduction of detector hits inside an auto-synchronizing stream scope."""
from contextlib import ExitStack

import numpy as np
from numba import cuda


@cuda.jit
def histogram(hits, out):
    i = cuda.grid(1)
    if i < hits.size:
        cuda.atomic.add(out, hits[i], 1)


class HitCounter:
    def __init__(self, channels, lanes=4):
        self.channels = channels
        self.streams = [cuda.stream() for _ in range(lanes)]

    def count(self, batches):
        partial = np.zeros((len(batches), self.channels), np.int32)
        with ExitStack() as stack:
            stack.enter_context(cuda.pinned(partial, *batches))
            for s in self.streams:
                stack.enter_context(s.auto_synchronize())
            keep = []
            for k, hits in enumerate(batches):
                s = self.streams[k % len(self.streams)]
                d_hits = cuda.to_device(hits, stream=s)
                d_out = cuda.to_device(partial[k], stream=s)
                histogram[(hits.size + 255) // 256, 256, s](d_hits, d_out)
                d_out.copy_to_host(partial[k], stream=s)
                keep.append((d_hits, d_out))
        return partial.sum(axis=0)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    data = [rng.integers(0, 128, 1 << 18).astype(np.int32) for _ in range(9)]
    print(HitCounter(128).count(data).sum())
