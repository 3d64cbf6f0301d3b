"""Send tiles from one GPU to the next through a single inbox."""
import ctypes
from functools import partial

import numpy as np
from cuda.bindings import runtime as rt


def ok(result):
    if result[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


def new_event():
    return ok(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))


class Stage:
    def __init__(self, device, nbytes):
        self.device = device
        self.nbytes = nbytes
        ok(rt.cudaSetDevice(device))
        self.stream = ok(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.buffer = ok(rt.cudaMalloc(nbytes))
        self.event = new_event()

    def mark(self):
        ok(rt.cudaEventRecord(self.event, self.stream))

    def after(self, other):
        ok(rt.cudaStreamWaitEvent(self.stream, other.event, 0))

    def close(self):
        ok(rt.cudaSetDevice(self.device))
        ok(rt.cudaStreamSynchronize(self.stream))
        ok(rt.cudaEventDestroy(self.event))
        ok(rt.cudaFree(self.buffer))
        ok(rt.cudaStreamDestroy(self.stream))


def send(src, dst, fill):
    ok(rt.cudaSetDevice(src.device))
    fill(src.buffer, src.nbytes, src.stream)
    src.after(dst)
    ok(rt.cudaMemcpyPeerAsync(
        dst.buffer, dst.device, src.buffer, src.device, src.nbytes, src.stream))
    src.mark()


def receive(src, dst, target):
    ok(rt.cudaSetDevice(dst.device))
    dst.after(src)
    ok(rt.cudaMemcpyAsync(
        target, dst.buffer, dst.nbytes,
        rt.cudaMemcpyKind.cudaMemcpyDeviceToHost, dst.stream))
    dst.mark()


def memset(value, ptr, nbytes, stream):
    ok(rt.cudaMemsetAsync(ptr, value, nbytes, stream))


def main(count=8, nbytes=1 << 20):
    src, dst = Stage(0, nbytes), Stage(1, nbytes)
    host = ok(rt.cudaHostAlloc(count * nbytes, rt.cudaHostAllocPortable))
    try:
        for k in range(count):
            send(src, dst, partial(memset, k))
            receive(src, dst, host + k * nbytes)
    finally:
        dst.close()
        src.close()
    raw = (ctypes.c_uint8 * (count * nbytes)).from_address(host)
    means = np.frombuffer(raw, np.uint8).reshape(count, nbytes).mean(axis=1)
    ok(rt.cudaFreeHost(host))
    return means


if __name__ == "__main__":
    print(main())
