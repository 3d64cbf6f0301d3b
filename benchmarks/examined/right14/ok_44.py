"""Packs ragged rows into a padded device matrix with stream-ordered scratch memory."""
from __future__ import annotations

import ctypes
from typing import Sequence

import numpy as np
from cuda.bindings import runtime as rt


def check(result):
    if result[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error: {result[0]}")
    if len(result) == 1:
        return None
    return result[1] if len(result) == 2 else result[1:]


class RaggedPacker:
    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.upload = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.pack = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.arrived = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.pointer = int(check(rt.cudaHostAlloc(max_bytes, rt.cudaHostAllocDefault)))
        raw = (ctypes.c_ubyte * max_bytes).from_address(self.pointer)
        self.host = np.frombuffer(raw, dtype=np.float32)

    def _stage(self, rows: Sequence[np.ndarray]) -> list[int]:
        offsets = [0]
        check(rt.cudaEventSynchronize(self.arrived))
        for row in rows:
            end = offsets[-1] + row.size
            if end * 4 > self.max_bytes:
                raise ValueError("rows exceed the staging buffer")
            self.host[offsets[-1]:end] = row
            offsets.append(end)
        return offsets

    def __call__(self, rows: Sequence[np.ndarray], width: int) -> np.ndarray:
        if not rows:
            return np.zeros((0, width), dtype=np.float32)
        offsets = self._stage(rows)
        flat_bytes = max(4, offsets[-1] * 4)
        out_bytes = len(rows) * width * 4
        h2d = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
        d2d = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        d2h = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost

        flat = int(check(rt.cudaMallocAsync(flat_bytes, self.upload)))
        check(rt.cudaMemcpyAsync(flat, self.pointer, offsets[-1] * 4, h2d, self.upload))
        check(rt.cudaEventRecord(self.arrived, self.upload))

        matrix = int(check(rt.cudaMallocAsync(max(4, out_bytes), self.pack)))
        check(rt.cudaMemsetAsync(matrix, 0, out_bytes, self.pack))
        check(rt.cudaStreamWaitEvent(self.pack, self.arrived, 0))
        for index, (start, end) in enumerate(zip(offsets, offsets[1:])):
            count = min(end - start, width) * 4
            if count:
                dst = matrix + index * width * 4
                check(rt.cudaMemcpyAsync(dst, flat + start * 4, count, d2d, self.pack))
        check(rt.cudaFreeAsync(flat, self.pack))

        result = np.empty((len(rows), width), dtype=np.float32)
        check(rt.cudaMemcpyAsync(result.ctypes.data, matrix, out_bytes, d2h, self.pack))
        check(rt.cudaFreeAsync(matrix, self.pack))
        check(rt.cudaStreamSynchronize(self.pack))
        return result

    def close(self) -> None:
        check(rt.cudaStreamSynchronize(self.upload))
        check(rt.cudaStreamSynchronize(self.pack))
        self.host = None
        check(rt.cudaFreeHost(self.pointer))
        check(rt.cudaEventDestroy(self.arrived))
        check(rt.cudaStreamDestroy(self.upload))
        check(rt.cudaStreamDestroy(self.pack))


def main() -> None:
    rng = np.random.default_rng(11)
    packer = RaggedPacker(8 << 20)
    try:
        for count in (0, 1, 17, 400):
            rows = [
                rng.standard_normal(int(rng.integers(0, 700))).astype(np.float32)
                for _ in range(count)
            ]
            padded = packer(rows, 512)
            print(padded.shape, float(padded.sum()), float(sum(r[:512].sum() for r in rows)))
    finally:
        packer.close()


if __name__ == "__main__":
    main()
