from __future__ import annotations

import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator


def use_async_allocator() -> None:
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    cp.cuda.set_allocator(rmm_cupy_allocator)


class Histogrammer:
    """Bins columns on a main stream with a helper stream for the extrema."""

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self.main = cp.cuda.Stream(non_blocking=True)
        self.helper = cp.cuda.Stream(non_blocking=True)
        with self.main:
            self.total = cp.zeros(bins, dtype=cp.int64)
            self.low = cp.full((), np.inf, dtype=cp.float32)
        self.helper.wait_event(self.main.record())

    def _scale(self, column: cp.ndarray) -> cp.ndarray:
        centred = column - column.mean()
        return centred / (centred.std() + 1e-6)

    def add(self, column: np.ndarray) -> None:
        with self.main:
            scaled = self._scale(cp.asarray(column))
            ready = self.main.record()

        self.helper.wait_event(ready)
        with self.helper:
            cp.minimum(self.low, scaled.min(), out=self.low)
            seen = self.helper.record()

        with self.main:
            index = cp.clip((scaled + 4.0) * (self.bins / 8.0), 0, self.bins - 1).astype(cp.int32)
            self.total += cp.bincount(index, minlength=self.bins)
            self.main.wait_event(seen)
            del scaled, index

    def result(self) -> tuple[np.ndarray, float]:
        with self.main:
            self.main.wait_event(self.helper.record())
            return cp.asnumpy(self.total), float(self.low)


def main() -> None:
    use_async_allocator()
    rng = np.random.default_rng(3)
    hist = Histogrammer(64)
    for _ in range(20):
        hist.add(rng.gamma(2.0, size=200_000).astype(np.float32))
    counts, low = hist.result()
    print(counts.sum(), low)


if __name__ == "__main__":
    main()
