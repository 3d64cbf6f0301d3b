"""Particle binning helpers built on scoped streams."""
from typing import Optional, Sequence, Tuple

import numpy as np
from numba import cuda


@cuda.jit
def bin_kernel(x, lo, inv_width, counts):
    i = cuda.grid(1)
    if i < x.shape[0]:
        b = int((x[i] - lo) * inv_width)
        if 0 <= b < counts.shape[0]:
            cuda.atomic.add(counts, b, 1)


@cuda.jit
def clear_kernel(counts):
    i = cuda.grid(1)
    if i < counts.shape[0]:
        counts[i] = 0


class Histogrammer:
    def __init__(self, bins: int, lo: float, hi: float, capacity: int):
        if hi <= lo:
            raise ValueError("empty range")
        self.lo = lo
        self.inv_width = bins / (hi - lo)
        self.stream = cuda.stream()
        self.stage = cuda.pinned_array(capacity, dtype=np.float64)
        self.d_x = cuda.device_array(capacity, dtype=np.float64)
        self.d_counts = cuda.device_array(bins, dtype=np.int64)
        self.h_counts = cuda.pinned_array(bins, dtype=np.int64)
        self.bins = bins
        self.capacity = capacity

    def histogram(self, values: np.ndarray, minimum: int = 1) -> Optional[np.ndarray]:
        with self.stream.auto_synchronize() as s:
            clear_kernel[(self.bins + 127) // 128, 128, s](self.d_counts)
            for start in range(0, len(values), self.capacity):
                part = values[start : start + self.capacity]
                s.synchronize()
                self.stage[: len(part)] = part
                view = self.d_x[: len(part)]
                view.copy_to_device(self.stage[: len(part)], stream=s)
                bin_kernel[(len(part) + 255) // 256, 256, s](view, self.lo, self.inv_width, self.d_counts)
            if len(values) < minimum:
                return None
            self.d_counts.copy_to_host(self.h_counts, stream=s)
        return self.h_counts.copy()

    def entropy(self, values: np.ndarray) -> float:
        counts = self.histogram(values)
        if counts is None or counts.sum() == 0:
            return 0.0
        p = counts[counts > 0] / counts.sum()
        return float(-(p * np.log(p)).sum())


def compare(series: Sequence[np.ndarray], bounds: Tuple[float, float], bins: int = 64):
    tool = Histogrammer(bins, bounds[0], bounds[1], capacity=1 << 16)
    rows = []
    for values in series:
        counts = tool.histogram(values, minimum=bins)
        rows.append(None if counts is None else counts / counts.sum().clip(1))
    return rows
