"""Page-locking of existing NumPy arrays for the time of their uploads."""
import weakref

import cupy as cp
import numpy as np


def _unregister(array: np.ndarray, streams: list) -> None:
    for stream in streams:
        stream.synchronize()
    cp.cuda.runtime.hostUnregister(array.ctypes.data)


class PageLocked:
    """Registers `array` as page-locked memory."""

    def __init__(self, array: np.ndarray):
        cp.cuda.runtime.hostRegister(array.ctypes.data, array.nbytes, 0)
        self.array = array
        self._streams: list[cp.cuda.Stream] = []
        self._finalizer = weakref.finalize(self, _unregister, array, self._streams)

    def upload(self, into: cp.ndarray, rows: slice, stream: cp.cuda.Stream) -> None:
        if not any(s is stream for s in self._streams):
            self._streams.append(stream)
        into.set(self.array[rows], stream=stream)

    def close(self) -> None:
        self._finalizer()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class ColumnStats:
    def __init__(self, cols: int, rows: int, lanes: int = 2):
        self.rows = rows
        self.lanes = []
        for _ in range(lanes):
            stream = cp.cuda.Stream(non_blocking=True)
            with stream:
                self.lanes.append((stream, cp.zeros((rows, cols)), cp.zeros(cols)))

    def consume(self, table: np.ndarray) -> None:
        with PageLocked(table) as locked:
            for k in range(table.shape[0] // self.rows):
                stream, block, sums = self.lanes[k % len(self.lanes)]
                locked.upload(block, slice(k * self.rows, (k + 1) * self.rows), stream)
                with stream:
                    sums += block.sum(axis=0)

    def totals(self) -> np.ndarray:
        parts = []
        for stream, _, sums in self.lanes:
            with stream:
                parts.append(sums.get())
        return np.sum(parts, axis=0)


def main():
    stats = ColumnStats(cols=64, rows=4096)
    table = np.zeros((1 << 16, 64))
    rng = np.random.default_rng(1)
    for _ in range(5):
        table[:] = rng.random(table.shape)
        stats.consume(table)
    print(stats.totals()[:4])


if __name__ == "__main__":
    main()
