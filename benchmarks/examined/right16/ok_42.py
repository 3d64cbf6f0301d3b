"""Scratch memory shared between two streams with the stream-ordered allocator."""
from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np
from cuda.bindings import runtime as rt

H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(result):
    status, *values = result
    if status != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(status)[1].decode())
    return values[0] if len(values) == 1 else tuple(values)


class PinnedArray:
    def __init__(self, count: int):
        self.nbytes = 4 * count
        self.ptr = check(rt.cudaHostAlloc(self.nbytes, rt.cudaHostAllocDefault))
        self.array = np.ctypeslib.as_array((ctypes.c_float * count).from_address(int(self.ptr)))

    def free(self) -> None:
        check(rt.cudaFreeHost(self.ptr))


class Archive:
    """Keeps device copies of vectors; staging memory is allocated per vector."""

    def __init__(self, rows: int, width: int):
        self.rows, self.width, self.row_bytes = rows, width, 4 * width
        self._ingest = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self._store = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self._arrived = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self._stored = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self._table = check(rt.cudaMalloc(rows * self.row_bytes))
        check(rt.cudaMemsetAsync(self._table, 0, rows * self.row_bytes, self._store))
        self._input = PinnedArray(width)
        self._output = PinnedArray(rows * width)

    def put(self, row: int, values: np.ndarray) -> None:
        if not 0 <= row < self.rows or values.shape != (self.width,):
            raise ValueError("bad row or shape")
        check(rt.cudaEventSynchronize(self._arrived))
        self._input.array[:] = values
        scratch = check(rt.cudaMallocAsync(self.row_bytes, self._ingest))
        try:
            check(rt.cudaMemcpyAsync(scratch, self._input.ptr, self.row_bytes, H2D, self._ingest))
            check(rt.cudaEventRecord(self._arrived, self._ingest))
            check(rt.cudaStreamWaitEvent(self._store, self._arrived, 0))
            target = int(self._table) + row * self.row_bytes
            check(rt.cudaMemcpyAsync(target, scratch, self.row_bytes, D2D, self._store))
            check(rt.cudaEventRecord(self._stored, self._store))
            check(rt.cudaStreamWaitEvent(self._ingest, self._stored, 0))
        finally:
            check(rt.cudaFreeAsync(scratch, self._ingest))

    def put_many(self, items: Iterable[tuple[int, np.ndarray]]) -> None:
        for row, values in items:
            self.put(row, values)

    def read(self) -> np.ndarray:
        check(rt.cudaMemcpyAsync(self._output.ptr, self._table, self._output.nbytes, D2H, self._store))
        check(rt.cudaStreamSynchronize(self._store))
        return self._output.array.reshape(self.rows, self.width).copy()

    def close(self) -> None:
        for stream in (self._ingest, self._store):
            check(rt.cudaStreamSynchronize(stream))
            check(rt.cudaStreamDestroy(stream))
        for event in (self._arrived, self._stored):
            check(rt.cudaEventDestroy(event))
        check(rt.cudaFree(self._table))
        self._input.free()
        self._output.free()


def main() -> None:
    check(rt.cudaSetDevice(0))
    archive = Archive(64, 4096)
    try:
        row_values = np.empty(4096, dtype=np.float32)
        for row in range(64):
            row_values[:] = row
            archive.put(row, row_values)
        print(archive.read()[:, 7].tolist() == list(range(64)))
        archive.put_many((row, row_values) for row in range(0, 64, 2))
        print(archive.read()[:, 100].sum())
    finally:
        archive.close()


if __name__ == "__main__":
    main()
