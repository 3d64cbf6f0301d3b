"""Stream-ordered scratch memory lent to a second stream."""
import ctypes
from contextlib import contextmanager

import numpy as np
from cuda.bindings import runtime as cudart

D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(result):
    if result[0] != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


def order(first, second):
    event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
    check(cudart.cudaEventRecord(event, first))
    check(cudart.cudaStreamWaitEvent(second, event, 0))
    check(cudart.cudaEventDestroy(event))


@contextmanager
def lent(owner, borrower):
    order(owner, borrower)
    try:
        yield borrower
    finally:
        order(borrower, owner)


@contextmanager
def scratch(nbytes, stream):
    ptr = check(cudart.cudaMallocAsync(nbytes, stream))
    try:
        yield ptr
    finally:
        check(cudart.cudaFreeAsync(ptr, stream))


def tiles(owner, helper, tile, count, host):
    with scratch(tile * count, owner) as result:
        for k in range(count):
            with scratch(tile, owner) as tmp:
                check(cudart.cudaMemsetAsync(tmp, k, tile, owner))
                with lent(owner, helper) as s:
                    check(cudart.cudaMemcpyAsync(
                        result + k * tile, tmp, tile, D2D, s))
        check(cudart.cudaMemcpyAsync(host, result, tile * count, D2H, owner))
    check(cudart.cudaStreamSynchronize(owner))


def main(tile=1 << 16, count=16):
    flag = cudart.cudaStreamNonBlocking
    owner = check(cudart.cudaStreamCreateWithFlags(flag))
    helper = check(cudart.cudaStreamCreateWithFlags(flag))
    host = check(cudart.cudaHostAlloc(tile * count, cudart.cudaHostAllocDefault))
    view = np.frombuffer((ctypes.c_uint8 * (tile * count)).from_address(host), np.uint8)
    tiles(owner, helper, tile, count, host)
    means = view.reshape(count, tile).mean(axis=1)
    for s in (owner, helper):
        check(cudart.cudaStreamDestroy(s))
    check(cudart.cudaFreeHost(host))
    return means


if __name__ == "__main__":
    print(main())
