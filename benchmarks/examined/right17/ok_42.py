"""Repacks dense host rows into a padded device matrix through a pinned ring."""
import ctypes
from typing import Iterable, List

import numpy as np
from cuda.bindings import runtime as rt


def check(result):
    status, *values = result
    if status != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {status}")
    return values[0] if len(values) == 1 else tuple(values)


class RingEntry:
    def __init__(self, nbytes: int):
        self.host = check(rt.cudaHostAlloc(nbytes, rt.cudaHostAllocDefault))
        self.dev = check(rt.cudaMalloc(nbytes))
        self.view = np.ctypeslib.as_array((ctypes.c_float * (nbytes // 4)).from_address(int(self.host)))
        self.uploaded = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.packed = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))


class PaddedMatrix:
    def __init__(self, rows: int, cols: int, chunk: int, depth: int = 3):
        self.rows, self.cols, self.chunk = rows, cols, chunk
        self.pitch = (cols * 4 + 511) // 512 * 512
        self.upload = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.pack = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.matrix = check(rt.cudaMalloc(self.pitch * rows))
        check(rt.cudaMemsetAsync(self.matrix, 0, self.pitch * rows, self.pack))
        self.ring: List[RingEntry] = [RingEntry(chunk * cols * 4) for _ in range(depth)]
        self.turn = 0
        self.filled = 0

    def append(self, block: np.ndarray) -> None:
        n = block.shape[0]
        if n > self.chunk or self.filled + n > self.rows or block.shape[1] != self.cols:
            raise ValueError("block does not fit")
        if n == 0:
            return
        entry = self.ring[self.turn]
        self.turn = (self.turn + 1) % len(self.ring)
        check(rt.cudaEventSynchronize(entry.uploaded))
        entry.view[: n * self.cols] = np.asarray(block, np.float32).reshape(-1)
        size = n * self.cols * 4
        check(rt.cudaStreamWaitEvent(self.upload, entry.packed, 0))
        check(rt.cudaMemcpyAsync(entry.dev, entry.host, size, rt.cudaMemcpyKind.cudaMemcpyHostToDevice, self.upload))
        check(rt.cudaEventRecord(entry.uploaded, self.upload))
        check(rt.cudaStreamWaitEvent(self.pack, entry.uploaded, 0))
        check(rt.cudaMemcpy2DAsync(int(self.matrix) + self.filled * self.pitch, self.pitch, entry.dev, self.cols * 4,
                                   self.cols * 4, n, rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice, self.pack))
        check(rt.cudaEventRecord(entry.packed, self.pack))
        self.filled += n

    def to_host(self) -> np.ndarray:
        out = np.empty((self.filled, self.cols), np.float32)
        check(rt.cudaStreamSynchronize(self.pack))
        if self.filled:
            check(rt.cudaMemcpy2D(out.ctypes.data, self.cols * 4, self.matrix, self.pitch, self.cols * 4,
                                  self.filled, rt.cudaMemcpyKind.cudaMemcpyDeviceToHost))
        return out

    def close(self) -> None:
        check(rt.cudaStreamSynchronize(self.upload))
        check(rt.cudaStreamSynchronize(self.pack))
        for entry in self.ring:
            entry.view = None
            check(rt.cudaFreeHost(entry.host))
            check(rt.cudaFree(entry.dev))
            check(rt.cudaEventDestroy(entry.uploaded))
            check(rt.cudaEventDestroy(entry.packed))
        self.ring.clear()
        check(rt.cudaFree(self.matrix))
        check(rt.cudaStreamDestroy(self.upload))
        check(rt.cudaStreamDestroy(self.pack))


def load(blocks: Iterable[np.ndarray], rows: int, cols: int, chunk: int) -> np.ndarray:
    matrix = PaddedMatrix(rows, cols, chunk)
    try:
        for block in blocks:
            matrix.append(block)
        return matrix.to_host()
    finally:
        matrix.close()
