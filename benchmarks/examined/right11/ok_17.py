from __future__ import annotations

import numpy as np
from cuda.bindings import runtime as rt


def check(result):
    err, *rest = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(err)[1].decode())
    return rest[0] if len(rest) == 1 else tuple(rest)


def new_stream():
    return check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))


def order(before, after) -> None:
    """Makes later work of one stream follow the current work of another."""
    event = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
    check(rt.cudaEventRecord(event, before))
    check(rt.cudaStreamWaitEvent(after, event, 0))
    check(rt.cudaEventDestroy(event))


class Scratch:
    def __init__(self, nbytes: int, owner) -> None:
        self.nbytes = nbytes
        self.owner = owner
        self.readers: list = []
        self.ptr = 0

    def __enter__(self) -> "Scratch":
        self.ptr = check(rt.cudaMallocAsync(self.nbytes, self.owner))
        return self

    def lend(self, stream) -> int:
        order(self.owner, stream)
        self.readers.append(stream)
        return self.ptr

    def __exit__(self, *exc) -> None:
        for stream in self.readers:
            order(stream, self.owner)
        check(rt.cudaFreeAsync(self.ptr, self.owner))


def broadcast(values: np.ndarray, copies: int) -> np.ndarray:
    h2d = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
    d2d = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    d2h = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
    owner, *helpers = (new_stream() for _ in range(3))
    n = values.nbytes
    result = np.empty((copies, values.size), dtype=values.dtype)
    dest = check(rt.cudaMalloc(n * copies))
    try:
        for row in range(0, copies, len(helpers)):
            with Scratch(n, owner) as scratch:
                check(rt.cudaMemcpyAsync(scratch.ptr, values.ctypes.data, n, h2d, owner))
                for k, stream in enumerate(helpers):
                    if row + k < copies:
                        src = scratch.lend(stream)
                        check(rt.cudaMemcpyAsync(dest + (row + k) * n, src, n, d2d, stream))
        check(rt.cudaMemcpyAsync(result.ctypes.data, dest, n * copies, d2h, owner))
        check(rt.cudaStreamSynchronize(owner))
    finally:
        check(rt.cudaFree(dest))
        for stream in (owner, *helpers):
            check(rt.cudaStreamDestroy(stream))
    return result


if __name__ == "__main__":
    check(rt.cudaSetDevice(0))
    table = broadcast(np.arange(4096, dtype=np.float32), 7)
    print(bool((table == table[0]).all()))
