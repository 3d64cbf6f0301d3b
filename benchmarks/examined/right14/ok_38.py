"""Difference of two separably smoothed images."""
from __future__ import annotations

import math

import numpy as np
from numba import cuda


@cuda.jit
def smooth_rows(src, weights, dst):
    col, row = cuda.grid(2)
    if row >= src.shape[0] or col >= src.shape[1]:
        return
    radius = weights.shape[0] // 2
    total = 0.0
    for k in range(-radius, radius + 1):
        c = min(max(col + k, 0), src.shape[1] - 1)
        total += weights[k + radius] * src[row, c]
    dst[row, col] = total


@cuda.jit
def smooth_cols(src, weights, dst):
    col, row = cuda.grid(2)
    if row >= src.shape[0] or col >= src.shape[1]:
        return
    radius = weights.shape[0] // 2
    total = 0.0
    for k in range(-radius, radius + 1):
        r = min(max(row + k, 0), src.shape[0] - 1)
        total += weights[k + radius] * src[r, col]
    dst[row, col] = total


def gaussian(sigma: float) -> np.ndarray:
    radius = max(1, int(math.ceil(3 * sigma)))
    axis = np.arange(-radius, radius + 1)
    w = np.exp(-0.5 * (axis / sigma) ** 2)
    return (w / w.sum()).astype(np.float32)


class PairSmoother:
    def __init__(self, shape: tuple[int, int], sigma: float) -> None:
        self.shape = shape
        self.weights = cuda.to_device(gaussian(sigma))
        self.streams = (cuda.stream(), cuda.stream())
        self.inputs = [cuda.pinned_array(shape, dtype=np.float32) for _ in range(2)]
        self.outputs = [cuda.pinned_array(shape, dtype=np.float32) for _ in range(2)]
        self.a = [cuda.device_array(shape, dtype=np.float32) for _ in range(2)]
        self.b = [cuda.device_array(shape, dtype=np.float32) for _ in range(2)]
        cuda.synchronize()

    def _enqueue(self, lane: int, stream) -> None:
        threads = (32, 8)
        blocks = (-(-self.shape[1] // 32), -(-self.shape[0] // 8))
        a, b = self.a[lane], self.b[lane]
        a.copy_to_device(self.inputs[lane], stream=stream)
        smooth_rows[blocks, threads, stream](a, self.weights, b)
        smooth_cols[blocks, threads, stream](b, self.weights, a)
        a.copy_to_host(self.outputs[lane], stream=stream)

    def difference(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        for stream in self.streams:
            stream.synchronize()
        self.inputs[0][...] = left
        self.inputs[1][...] = right
        with self.streams[0].auto_synchronize() as s0, self.streams[1].auto_synchronize() as s1:
            self._enqueue(0, s0)
            self._enqueue(1, s1)
        return self.outputs[0] - self.outputs[1]


def main() -> None:
    rng = np.random.default_rng(0)
    smoother = PairSmoother((480, 640), 2.0)
    previous = rng.random((480, 640), dtype=np.float32)
    for _ in range(10):
        current = np.roll(previous, 3, axis=1)
        print(float(np.abs(smoother.difference(previous, current)).max()))
        previous = current


if __name__ == "__main__":
    main()
