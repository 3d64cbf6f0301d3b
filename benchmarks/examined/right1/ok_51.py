"""Load a large file to device memory through a few pinned blocks."""
import ctypes
import sys
from collections import deque
from contextlib import contextmanager

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])
    if not rest:
        return None
    return rest[0] if len(rest) == 1 else tuple(rest)


class StagingRing:
    def __init__(self, nbytes, depth=4):
        self.nbytes = nbytes
        self._blocks = deque()
        for _ in range(depth):
            ptr = check(cudart.cudaHostAlloc(nbytes, cudart.cudaHostAllocDefault))
            event = check(
                cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
            self._blocks.append((ptr, event))

    @contextmanager
    def borrow(self, stream):
        ptr, event = self._blocks.popleft()
        try:
            check(cudart.cudaEventSynchronize(event))
            yield ptr, memoryview((ctypes.c_uint8 * self.nbytes).from_address(ptr))
        finally:
            check(cudart.cudaEventRecord(event, stream))
            self._blocks.append((ptr, event))

    def close(self):
        while self._blocks:
            ptr, event = self._blocks.popleft()
            check(cudart.cudaEventSynchronize(event))
            check(cudart.cudaEventDestroy(event))
            check(cudart.cudaFreeHost(ptr))


def load(path, dst, size, stream, ring):
    offset = 0
    kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    with open(path, "rb", buffering=0) as f:
        while offset < size:
            with ring.borrow(stream) as (ptr, view):
                got = f.readinto(view[: size - offset])
                if not got:
                    break
                check(cudart.cudaMemcpyAsync(dst + offset, ptr, got, kind, stream))
            offset += got
    return offset


def main(path, size):
    stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    dst = check(cudart.cudaMalloc(size))
    ring = StagingRing(8 << 20)
    try:
        n = load(path, dst, size, stream, ring)
    finally:
        ring.close()
    head = np.empty(min(n, 64), np.uint8)
    d2h = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    check(cudart.cudaMemcpy(head.ctypes.data, dst, head.nbytes, d2h))
    check(cudart.cudaFree(dst))
    check(cudart.cudaStreamDestroy(stream))
    return n, head


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2])))
