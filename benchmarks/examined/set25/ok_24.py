"""TCP transport: asynchronous H2D of reply slabs, retired by polling events."""
import ctypes
from collections import deque

import numpy as np
from cuda.bindings import runtime as rt


def check(res):
    err, rest = res[0], res[1:]
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


class Slab:
    def __init__(self, nbytes):
        self.ptr = check(rt.cudaMallocHost(nbytes))
        self.bytes = np.ctypeslib.as_array(
            ctypes.cast(self.ptr, ctypes.POINTER(ctypes.c_uint8)), (nbytes,))
        self.event = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))


class SlabReader:
    def __init__(self, count, nbytes):
        self.free = deque(Slab(nbytes) for _ in range(count))
        self.pending = []

    def poll(self):
        still = []
        for slab in self.pending:
            (err,) = rt.cudaEventQuery(slab.event)
            if err == rt.cudaError_t.cudaSuccess:
                self.free.append(slab)
            elif err == rt.cudaError_t.cudaErrorNotReady:
                still.append(slab)
            else:
                raise RuntimeError(str(err))
        self.pending = still

    def acquire(self):
        self.poll()
        if not self.free:
            oldest = self.pending.pop(0)
            check(rt.cudaEventSynchronize(oldest.event))
            self.free.append(oldest)
        return self.free.popleft()

    def stage_async_h2d(self, slab, dst, nbytes, stream):
        check(rt.cudaMemcpyAsync(
            dst, slab.ptr, nbytes, rt.cudaMemcpyKind.cudaMemcpyHostToDevice, stream))
        check(rt.cudaEventRecord(slab.event, stream))
        self.pending.append(slab)

    def drain(self):
        for slab in self.pending:
            check(rt.cudaEventSynchronize(slab.event))
            self.free.append(slab)
        self.pending = []


def fetch(reader, payloads, dst, chunk, stream):
    for i, payload in enumerate(payloads):
        slab = reader.acquire()
        slab.bytes[:chunk] = payload
        reader.stage_async_h2d(slab, dst + i * chunk, chunk, stream)


def main():
    chunk, count = 1 << 20, 16
    stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
    dst = check(rt.cudaMalloc(chunk * count))
    reader = SlabReader(3, chunk)
    fetch(reader, [np.full(chunk, i, np.uint8) for i in range(count)], dst, chunk, stream)
    back = np.empty(chunk * count, np.uint8)
    reader.drain()
    check(rt.cudaStreamSynchronize(stream))
    check(rt.cudaMemcpy(back.ctypes.data, dst, back.nbytes,
                        rt.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    print(back[::chunk])
    for slab in reader.free:
        check(rt.cudaFreeHost(slab.ptr))
    check(rt.cudaFree(dst))


if __name__ == "__main__":
    main()
