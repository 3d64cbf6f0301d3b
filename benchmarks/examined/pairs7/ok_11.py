"""Chunked column sums of a table that does not fit on the device."""
import cupy as cp
import cupyx
import numpy as np

ROWS, COLS = 1 << 16, 64


class ColumnSums:
    """Uploads a group of chunks, then waits once for the whole group."""

    def __init__(self, group=4):
        self.group = group
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.staging = [cupyx.empty_pinned((ROWS, COLS), np.float32) for _ in range(group)]
        with self.stream:
            self.chunk = cp.empty((ROWS, COLS), cp.float32)
            self.sums = cp.zeros(COLS, cp.float64)
        self.seen = 0

    def add(self, block):
        slot = self.seen % self.group
        if slot == 0 and self.seen:
            self.stream.synchronize()
        self.staging[slot][: len(block)] = block
        self.staging[slot][len(block):] = 0.0
        with self.stream:
            self.chunk.set(self.staging[slot], stream=self.stream)
            self.sums += self.chunk.sum(axis=0, dtype=cp.float64)
        self.seen += 1

    def result(self):
        with self.stream:
            return self.sums.get()


def blocks(rng, total):
    left = total
    while left:
        size = min(left, ROWS)
        yield rng.random((size, COLS), dtype=np.float32)
        left -= size


if __name__ == "__main__":
    sums = ColumnSums()
    for block in blocks(np.random.default_rng(0), 3_000_000):
        sums.add(block)
    print(sums.result()[:5])
