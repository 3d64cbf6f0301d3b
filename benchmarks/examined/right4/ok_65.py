import ctypes

import numpy as np
from cuda.bindings import runtime as rt


def check(result):
    err, *rest = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(err)[1].decode())
    return rest[0] if len(rest) == 1 else rest


class Stream:
    def __init__(self):
        self.handle = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))

    def mark(self):
        event = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        check(rt.cudaEventRecord(event, self.handle))
        return event

    def follow(self, other):
        event = other.mark()
        check(rt.cudaStreamWaitEvent(self.handle, event, 0))
        check(rt.cudaEventDestroy(event))

    def synchronize(self):
        check(rt.cudaStreamSynchronize(self.handle))


class Block:
    """Device memory that belongs to a stream."""

    def __init__(self, nbytes, home):
        self.nbytes, self.home = nbytes, home
        self.guests = []
        self.ptr = check(rt.cudaMallocAsync(nbytes, home.handle))

    def lend(self, stream):
        stream.follow(self.home)
        self.guests.append(stream)
        return self.ptr

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for guest in self.guests:
            self.home.follow(guest)
        check(rt.cudaFreeAsync(self.ptr, self.home.handle))


class Pinned:
    def __init__(self, n, dtype):
        self.nbytes = n * np.dtype(dtype).itemsize
        self.ptr = check(rt.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_byte * self.nbytes).from_address(int(self.ptr))
        self.array = np.frombuffer(raw, dtype=dtype, count=n)


def fill_rows(rows, n):
    compute, download = Stream(), Stream()
    outs = [Pinned(n, np.uint8) for _ in range(rows)]
    for i, out in enumerate(outs):
        with Block(n, compute) as block:
            check(rt.cudaMemsetAsync(block.ptr, i, n, compute.handle))
            check(rt.cudaMemcpyAsync(out.ptr, block.lend(download), n,
                                     rt.cudaMemcpyKind.cudaMemcpyDeviceToHost, download.handle))
    download.synchronize()
    means = [float(o.array.mean()) for o in outs]
    compute.synchronize()
    for o in outs:
        check(rt.cudaFreeHost(o.ptr))
    return means


if __name__ == "__main__":
    check(rt.cudaSetDevice(0))
    print(fill_rows(8, 1 << 20))
