"""Loads a large file into device memory through two pinned staging blocks."""
from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from pathlib import Path

from cuda.bindings import runtime as rt


def check(result):
    if result[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error: {result[0]}")
    if len(result) == 1:
        return None
    return result[1] if len(result) == 2 else result[1:]


class Staging:
    def __init__(self, size: int) -> None:
        self.size = size
        self.pointer = int(check(rt.cudaHostAlloc(size, rt.cudaHostAllocDefault)))
        self.view = memoryview((ctypes.c_ubyte * size).from_address(self.pointer)).cast("B")
        self.event = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))

    def free(self) -> None:
        self.view.release()
        check(rt.cudaEventDestroy(self.event))
        check(rt.cudaFreeHost(self.pointer))


class FileLoader:
    def __init__(self, block: int = 16 << 20) -> None:
        self.block = block
        self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.staging = [Staging(block), Staging(block)]

    def load(self, path: Path) -> tuple[int, int]:
        total = os.stat(path).st_size
        device = int(check(rt.cudaMalloc(max(total, 1))))
        done = 0
        turn = 0
        try:
            with open(path, "rb", buffering=0) as handle:
                while done < total:
                    slot = self.staging[turn]
                    turn ^= 1
                    check(rt.cudaEventSynchronize(slot.event))
                    want = min(self.block, total - done)
                    got = handle.readinto(slot.view[:want])
                    if not got:
                        raise EOFError(path)
                    check(
                        rt.cudaMemcpyAsync(
                            device + done,
                            slot.pointer,
                            got,
                            rt.cudaMemcpyKind.cudaMemcpyHostToDevice,
                            self.stream,
                        )
                    )
                    check(rt.cudaEventRecord(slot.event, self.stream))
                    done += got
            check(rt.cudaStreamSynchronize(self.stream))
        except BaseException:
            rt.cudaStreamSynchronize(self.stream)
            rt.cudaFree(device)
            raise
        return device, total

    def digest(self, device: int, total: int) -> str:
        sha = hashlib.sha256()
        slot = self.staging[0]
        for offset in range(0, total, self.block):
            count = min(self.block, total - offset)
            check(
                rt.cudaMemcpyAsync(
                    slot.pointer,
                    device + offset,
                    count,
                    rt.cudaMemcpyKind.cudaMemcpyDeviceToHost,
                    self.stream,
                )
            )
            check(rt.cudaStreamSynchronize(self.stream))
            sha.update(slot.view[:count])
        return sha.hexdigest()

    def close(self) -> None:
        check(rt.cudaStreamSynchronize(self.stream))
        for slot in self.staging:
            slot.free()
        self.staging = []
        check(rt.cudaStreamDestroy(self.stream))


def main(paths: list[str]) -> None:
    loader = FileLoader()
    try:
        for path in paths:
            device, total = loader.load(Path(path))
            print(path, total, loader.digest(device, total))
            check(rt.cudaFree(device))
    finally:
        loader.close()


if __name__ == "__main__":
    main(sys.argv[1:])
