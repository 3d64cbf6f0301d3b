"""Upload frames through short-lived blocks; the consumer releases them."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt

NON_BLOCKING = rt.cudaStreamNonBlocking
H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(ret):
    err, rest = ret[0], ret[1:]
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


class FramePipe:
    def __init__(self, batch, frame_bytes):
        self.n = frame_bytes
        self.codec_stream = check(rt.cudaStreamCreateWithFlags(NON_BLOCKING))
        self.op_stream = check(rt.cudaStreamCreateWithFlags(NON_BLOCKING))
        self.out = check(rt.cudaMalloc(batch * frame_bytes))

    def upload(self, host_ptr):
        block = check(rt.cudaMallocAsync(self.n, self.codec_stream))
        check(rt.cudaMemcpyAsync(block, host_ptr, self.n, H2D, self.codec_stream))
        ready = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        check(rt.cudaEventRecord(ready, self.codec_stream))
        return block, ready

    def place(self, index, block, ready):
        check(rt.cudaStreamWaitEvent(self.op_stream, ready, 0))
        dst = self.out + index * self.n
        check(rt.cudaMemcpyAsync(dst, block, self.n, D2D, self.op_stream))
        check(rt.cudaFreeAsync(block, self.op_stream))
        check(rt.cudaEventDestroy(ready))

    def result(self, host_ptr, count):
        check(rt.cudaMemcpyAsync(host_ptr, self.out, count * self.n, D2H, self.op_stream))
        check(rt.cudaStreamSynchronize(self.op_stream))


def pinned_frames(count, nbytes):
    ptr = check(rt.cudaHostAlloc(count * nbytes, rt.cudaHostAllocDefault))
    raw = (ctypes.c_uint8 * (count * nbytes)).from_address(int(ptr))
    return int(ptr), np.frombuffer(raw, np.uint8).reshape(count, nbytes)


def main(count=12, nbytes=1 << 20):
    check(rt.cudaSetDevice(0))
    pipe = FramePipe(count, nbytes)
    src_ptr, src = pinned_frames(count, nbytes)
    dst_ptr, dst = pinned_frames(count, nbytes)
    src[...] = np.arange(count, dtype=np.uint8)[:, None]

    waiting = None
    for i in range(count):
        block, ready = pipe.upload(src_ptr + i * nbytes)
        if waiting is not None:
            pipe.place(*waiting)
        waiting = (i, block, ready)
    pipe.place(*waiting)
    pipe.result(dst_ptr, count)
    print("match", bool((dst == src).all()))


if __name__ == "__main__":
    main()
