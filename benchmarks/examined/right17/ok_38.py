"""Column statistics: uploads on streams, reductions on the default stream."""
from typing import Dict, List

import numpy as np
from numba import cuda


@cuda.jit
def moments_kernel(block, rows, sums, squares):
    col = cuda.grid(1)
    if col >= block.shape[1]:
        return
    s = 0.0
    q = 0.0
    for r in range(rows):
        v = block[r, col]
        s += v
        q += v * v
    sums[col] += s
    squares[col] += q


class ColumnStats:
    def __init__(self, rows: int, cols: int):
        self.rows = rows
        self.cols = cols
        self.streams = [cuda.stream() for _ in range(2)]
        self.pinned = [cuda.pinned_array((rows, cols), dtype=np.float32) for _ in range(2)]
        self.blocks = [cuda.device_array((rows, cols), dtype=np.float32) for _ in range(2)]
        self.sums = cuda.to_device(np.zeros(cols))
        self.squares = cuda.to_device(np.zeros(cols))
        self.count = 0
        self.turn = 0

    def push(self, chunk: np.ndarray) -> None:
        n = chunk.shape[0]
        if n == 0:
            return
        if n > self.rows or chunk.shape[1] != self.cols:
            raise ValueError("bad chunk")
        k = self.turn
        self.turn ^= 1
        self.streams[k].synchronize()
        self.pinned[k][:n] = chunk
        self.blocks[k].copy_to_device(self.pinned[k], stream=self.streams[k])
        threads = 128
        moments_kernel[(self.cols + threads - 1) // threads, threads](
            self.blocks[k], n, self.sums, self.squares)
        self.count += n

    def reset(self) -> None:
        zeros = np.zeros(self.cols)
        self.sums.copy_to_device(zeros)
        self.squares.copy_to_device(zeros)
        self.count = 0

    def summary(self) -> Dict[str, np.ndarray]:
        n = max(self.count, 1)
        mean = self.sums.copy_to_host() / n
        second = self.squares.copy_to_host() / n
        return {"mean": mean, "std": np.sqrt(np.maximum(second - mean * mean, 0.0))}


def standardize(chunks: List[np.ndarray]) -> List[np.ndarray]:
    if not chunks:
        return []
    stats = ColumnStats(max(len(c) for c in chunks), chunks[0].shape[1])
    for chunk in chunks:
        stats.push(chunk)
    s = stats.summary()
    scale = np.where(s["std"] > 0, s["std"], 1.0)
    return [(c - s["mean"]) / scale for c in chunks]
