"""Blocked pairwise-distance histogram computed by several host threads."""
from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import cupy as cp
import numpy as np


class PairHistogram:
    def __init__(self, bins: int, upper: float, workers: int = 4, device: int = 0):
        self.bins, self.upper, self.device = bins, upper, device
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(max_workers=workers)

    def _stream(self) -> cp.cuda.Stream:
        stream = getattr(self._local, "stream", None)
        if stream is None:
            stream = self._local.stream = cp.cuda.Stream(non_blocking=True)
        return stream

    def _block(self, points: cp.ndarray, ready: cp.cuda.Event, lo: int, hi: int):
        with cp.cuda.Device(self.device):
            stream = self._stream()
            stream.wait_event(ready)
            with stream:
                delta = points[lo:hi, None, :] - points[None, :, :]
                distance = cp.sqrt(cp.square(delta).sum(axis=-1))
                scaled = (distance * (self.bins / self.upper)).astype(np.int64)
                index = cp.clip(scaled, 0, self.bins - 1).ravel()
                counts = cp.zeros(self.bins, dtype=np.int64)
                cp.add.at(counts, index, 1)
                return counts, stream.record()

    def __call__(self, points: np.ndarray, rows: int = 128) -> np.ndarray:
        with cp.cuda.Device(self.device):
            main = cp.cuda.Stream(non_blocking=True)
            with main:
                device_points = cp.asarray(points, dtype=np.float32)
                ready = main.record()
                futures = [
                    self._pool.submit(self._block, device_points, ready, lo, min(lo + rows, len(points)))
                    for lo in range(0, len(points), rows)
                ]
                total = cp.zeros(self.bins, dtype=np.int64)
                partials = []
                try:
                    for future in futures:
                        counts, finished = future.result()
                        partials.append(counts)
                        main.wait_event(finished)
                        total += counts
                    return cp.asnumpy(total)
                except BaseException:
                    wait(futures)
                    cp.cuda.Device().synchronize()
                    raise

    def close(self) -> None:
        self._pool.shutdown(wait=True)


def main() -> None:
    rng = np.random.default_rng(0)
    histogram = PairHistogram(64, upper=2.0)
    try:
        for count in (1000, 1500, 10):
            points = rng.random((count, 3), dtype=np.float32)
            counts = histogram(points)
            print(count, int(counts.sum()) == count * count, int(counts.argmax()))
    finally:
        histogram.close()


if __name__ == "__main__":
    main()
