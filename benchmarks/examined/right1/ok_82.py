"""A small device allocator with driver-API free lists."""
import ctypes
from collections import defaultdict, deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from cuda.bindings import driver as cu


def check(result):
    if result[0] != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(cu.cuGetErrorName(result[0])[1])
    return result[1] if len(result) > 1 else None


@dataclass
class Block:
    ptr: int
    size: int
    event: Any


class BlockPool:
    def __init__(self):
        self._free = defaultdict(deque)

    def alloc(self, size, stream):
        bucket = self._free[size]
        if bucket:
            block = bucket.popleft()
            check(cu.cuStreamWaitEvent(stream, block.event, 0))
            return block
        event = check(cu.cuEventCreate(cu.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        return Block(int(check(cu.cuMemAlloc(size))), size, event)

    def free(self, block, stream):
        check(cu.cuEventRecord(block.event, stream))
        self._free[block.size].append(block)

    @contextmanager
    def block(self, size, stream):
        block = self.alloc(size, stream)
        try:
            yield block.ptr
        finally:
            self.free(block, stream)

    def release(self):
        for bucket in self._free.values():
            while bucket:
                block = bucket.popleft()
                check(cu.cuEventSynchronize(block.event))
                check(cu.cuMemFree(block.ptr))
                check(cu.cuEventDestroy(block.event))


def job(pool, k, words, host, stream):
    size = 4 * words
    with pool.block(size, stream) as a, pool.block(size, stream) as b:
        check(cu.cuMemsetD32Async(a, k, words, stream))
        check(cu.cuMemcpyDtoDAsync(b, a, size, stream))
        check(cu.cuMemsetD32Async(b, k + 1000, 1, stream))
        check(cu.cuMemcpyDtoHAsync(host + k * size, b, size, stream))


def main(jobs=40, words=1 << 16, lanes=3):
    check(cu.cuInit(0))
    device = check(cu.cuDeviceGet(0))
    context = check(cu.cuDevicePrimaryCtxRetain(device))
    check(cu.cuCtxSetCurrent(context))
    flag = cu.CUstream_flags.CU_STREAM_NON_BLOCKING
    streams = [check(cu.cuStreamCreate(flag)) for _ in range(lanes)]
    host = int(check(cu.cuMemAllocHost(jobs * words * 4)))
    pool = BlockPool()
    for k in range(jobs):
        job(pool, k, words, host, streams[k % lanes])
    for s in streams:
        check(cu.cuStreamSynchronize(s))
    raw = (ctypes.c_uint32 * (jobs * words)).from_address(host)
    table = np.frombuffer(raw, np.uint32).reshape(jobs, words)
    heads, tails = table[:, 0].tolist(), table[:, -1].tolist()
    pool.release()
    check(cu.cuMemFreeHost(host))
    for s in streams:
        check(cu.cuStreamDestroy(s))
    check(cu.cuDevicePrimaryCtxRelease(device))
    return heads, tails


if __name__ == "__main__":
    print(main())
