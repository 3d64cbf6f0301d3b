"""cuda-python driver API: producer and consumer streams over a ring of device chunks."""
import numpy as np
from cuda.bindings import driver as cu


def check(ret):
    err, *rest = ret
    if err != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(cu.cuGetErrorName(err)[1])
    return rest[0] if len(rest) == 1 else rest


class Chunk:
    def __init__(self, nbytes):
        flags = cu.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self.ptr = check(cu.cuMemAlloc(nbytes))
        self.filled = check(cu.cuEventCreate(flags))
        self.drained = check(cu.cuEventCreate(flags))

    def destroy(self):
        check(cu.cuMemFree(self.ptr))
        check(cu.cuEventDestroy(self.filled))
        check(cu.cuEventDestroy(self.drained))


class Ring:
    def __init__(self, depth, words):
        self.words = words
        self.chunks = [Chunk(4 * words) for _ in range(depth)]
        flags = cu.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.producer = check(cu.cuStreamCreate(flags))
        self.consumer = check(cu.cuStreamCreate(flags))

    def fill(self, k, value):
        c = self.chunks[k % len(self.chunks)]
        check(cu.cuStreamWaitEvent(self.producer, c.drained, 0))
        check(cu.cuMemsetD32Async(c.ptr, value, self.words, self.producer))
        check(cu.cuEventRecord(c.filled, self.producer))

    def drain(self, k, target):
        c = self.chunks[k % len(self.chunks)]
        check(cu.cuStreamWaitEvent(self.consumer, c.filled, 0))
        check(cu.cuMemcpyDtoDAsync(int(target) + 4 * k * self.words, c.ptr,
                                   4 * self.words, self.consumer))
        check(cu.cuEventRecord(c.drained, self.consumer))

    def close(self):
        for s in (self.producer, self.consumer):
            check(cu.cuStreamSynchronize(s))
            check(cu.cuStreamDestroy(s))
        for c in self.chunks:
            c.destroy()


def main(total=24, words=1 << 14):
    check(cu.cuInit(0))
    ctx = check(cu.cuDevicePrimaryCtxRetain(check(cu.cuDeviceGet(0))))
    check(cu.cuCtxSetCurrent(ctx))
    ring = Ring(3, words)
    target = check(cu.cuMemAlloc(4 * total * words))
    out = np.empty(total * words, np.uint32)
    try:
        for k in range(total):
            ring.fill(k, k)
            ring.drain(k, target)
    finally:
        ring.close()
    check(cu.cuMemcpyDtoH(out.ctypes.data, target, out.nbytes))
    check(cu.cuMemFree(target))
    return out.reshape(total, words)[:, 0]


if __name__ == "__main__":
    print(main())
