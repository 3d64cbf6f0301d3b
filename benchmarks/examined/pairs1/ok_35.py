"""CuPy uploads of token tables whose host pages are kept until the copy has passed."""
from collections import deque

import cupy as cp
import cupyx
import numpy as np


class HostPages:
    """Owns pinned arrays handed to asynchronous copies."""

    def __init__(self):
        self._held = deque()

    def hold(self, array, event):
        self._held.append((array, event))

    def sweep(self, keep=4):
        while self._held and (self._held[0][1].done or len(self._held) > keep):
            array, event = self._held.popleft()
            event.synchronize()

    def close(self):
        self.sweep(keep=0)


class TableUploader:
    def __init__(self, rows, cols):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.pages = HostPages()
        with self.stream:
            self.table = cp.zeros((rows, cols), dtype=cp.int32)
            self.hist = cp.zeros((rows,), dtype=cp.int64)

    def step(self, values):
        self.pages.sweep()
        host = cupyx.empty_pinned(values.shape, dtype=np.int32)
        host[...] = values
        with self.stream:
            self.table.set(host, stream=self.stream)
            self.pages.hold(host, self.stream.record())
            self.hist += self.table.sum(axis=1)


def main(steps=100):
    up = TableUploader(256, 4096)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        up.step(rng.integers(0, 100, (256, 4096), dtype=np.int32))
    up.pages.close()
    up.stream.synchronize()
    with up.stream:
        print(int(up.hist.sum()))


if __name__ == "__main__":
    main()
