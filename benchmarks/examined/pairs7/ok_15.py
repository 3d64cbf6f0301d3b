"""External merge sort: runs are sorted on the device and merged on the host."""
import heapq
from collections import deque

import cupy as cp
import cupyx
import numpy as np

RUN = 1 << 20


class RunSorter:
    def __init__(self, inflight=3):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.idle = deque(cupyx.empty_pinned(RUN, np.int64) for _ in range(inflight))
        self.busy = deque()
        self.runs = []

    def _retire(self):
        page, length, done = self.busy.popleft()
        done.synchronize()
        self.runs.append(page[:length].copy())
        self.idle.append(page)

    def push(self, keys):
        if not self.idle:
            self._retire()
        page = self.idle.popleft()
        page[: keys.size] = keys
        with self.stream:
            dev = cp.empty(keys.size, cp.int64)
            dev.set(page[: keys.size], stream=self.stream)
            dev.sort()
            dev.get(stream=self.stream, out=page[: keys.size], blocking=False)
            self.busy.append((page, keys.size, self.stream.record()))

    def merged(self):
        while self.busy:
            self._retire()
        return heapq.merge(*self.runs)


def main():
    rng = np.random.default_rng(16)
    sorter = RunSorter()
    for _ in range(9):
        sorter.push(rng.integers(0, 1 << 60, RUN - 17, dtype=np.int64))
    stream = sorter.merged()
    first = [next(stream) for _ in range(100)]
    assert first == sorted(first)


if __name__ == "__main__":
    main()
