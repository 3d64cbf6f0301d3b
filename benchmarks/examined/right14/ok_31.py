"""Moments of a host array that is larger than device memory."""
from __future__ import annotations

import cupy as cp
import cupyx
import numpy as np


class ChunkedMoments:
    def __init__(self, chunk: int = 1 << 22, dtype=np.float32) -> None:
        self.chunk = chunk
        self.dtype = np.dtype(dtype)
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.work = cp.cuda.Stream(non_blocking=True)
        self.host = [cupyx.empty_pinned((chunk,), dtype=self.dtype) for _ in range(2)]
        with self.copy:
            self.dev = [cp.empty((chunk,), dtype=self.dtype) for _ in range(2)]
        self.uploaded = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.consumed = [cp.cuda.Event(disable_timing=True) for _ in range(2)]

    def _upload(self, slot: int, piece: np.ndarray) -> cp.ndarray:
        m = piece.size
        self.uploaded[slot].synchronize()
        np.copyto(self.host[slot][:m], piece)
        self.copy.wait_event(self.consumed[slot])
        view = self.dev[slot][:m]
        view.set(self.host[slot][:m], stream=self.copy)
        self.uploaded[slot].record(self.copy)
        return view

    def _accumulate(self, slot: int, view: cp.ndarray, acc: cp.ndarray) -> None:
        self.work.wait_event(self.uploaded[slot])
        with self.work:
            wide = view.astype(cp.float64)
            acc[0] += wide.sum()
            acc[1] += cp.square(wide).sum()
            acc[2] = cp.maximum(acc[2], cp.abs(wide).max())
            self.consumed[slot].record(self.work)

    def __call__(self, data: np.ndarray) -> dict[str, float]:
        flat = data.reshape(-1)
        if flat.size == 0:
            return {"mean": float("nan"), "var": float("nan"), "peak": float("nan")}
        with self.work:
            acc = cp.zeros(3, dtype=cp.float64)
        try:
            for index, start in enumerate(range(0, flat.size, self.chunk)):
                slot = index & 1
                view = self._upload(slot, flat[start:start + self.chunk])
                self._accumulate(slot, view, acc)
            total = acc.get(stream=self.work)
        finally:
            self.work.synchronize()
            self.copy.synchronize()
        mean = total[0] / flat.size
        return {
            "mean": float(mean),
            "var": float(total[1] / flat.size - mean * mean),
            "peak": float(total[2]),
        }


def main() -> None:
    rng = np.random.default_rng(0)
    moments = ChunkedMoments(1 << 20)
    for size in (100, 1 << 20, 5_000_001):
        print(size, moments(rng.standard_normal(size).astype(np.float32)))


if __name__ == "__main__":
    main()
