"""Sorts spill files run by run and keeps the sorted runs in host memory."""
from collections import deque

import cupy as cp
import cupyx
import numpy as np

CAPACITY = 1 << 21


class SpillSorter:
    def __init__(self, pages=2):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.pages = deque(cupyx.empty_pinned(CAPACITY, np.uint32) for _ in range(pages))
        self.pending = deque()
        self.output = []

    def _drain_one(self):
        page, size, event = self.pending.popleft()
        event.synchronize()
        self.output.append(page[:size].copy())
        self.pages.append(page)

    def submit(self, spill):
        if not self.pages:
            self._drain_one()
        page = self.pages.popleft()
        size = spill.size
        page[:size] = spill
        with self.stream:
            keys = cp.empty(size, cp.uint32)
            keys.set(page[:size], stream=self.stream)
            event = self.stream.record()
            keys.sort()
            keys.get(stream=self.stream, out=page[:size], blocking=False)
        self.pending.append((page, size, event))

    def finish(self):
        while self.pending:
            self._drain_one()
        return self.output


def main():
    rng = np.random.default_rng(18)
    sorter = SpillSorter()
    for _ in range(12):
        sorter.submit(rng.integers(0, 1 << 32, CAPACITY // 2, dtype=np.uint32))
    runs = sorter.finish()
    print(sum(bool(np.all(run[1:] >= run[:-1])) for run in runs), "of", len(runs))


if __name__ == "__main__":
    main()
