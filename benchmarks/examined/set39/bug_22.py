"""Image decode stage: encoded frames are uploaded, expanded and stacked."""
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


def pinned(shape):
    nbytes = int(np.prod(shape))
    ptr = check(rt.cudaHostAlloc(nbytes, rt.cudaHostAllocDefault))
    raw = (ctypes.c_uint8 * nbytes).from_address(int(ptr))
    return int(ptr), np.frombuffer(raw, np.uint8).reshape(shape)


class Scratch:
    def __init__(self, stream):
        self.stream = stream

    def take(self, nbytes):
        return check(rt.cudaMallocAsync(nbytes, self.stream))

    def give(self, ptr):
        check(rt.cudaFreeAsync(ptr, self.stream))


class DecodeStage:
    def __init__(self, batch, frame_bytes):
        self.frame_bytes = frame_bytes
        self.op_stream = check(rt.cudaStreamCreateWithFlags(NON_BLOCKING))
        self.codec_stream = check(rt.cudaStreamCreateWithFlags(NON_BLOCKING))
        self.uploaded = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.scratch = Scratch(self.op_stream)
        self.out = check(rt.cudaMalloc(batch * frame_bytes))

    def decode(self, index, host_ptr):
        n = self.frame_bytes
        buf = self.scratch.take(n)
        check(rt.cudaMemcpyAsync(buf, host_ptr, n, H2D, self.codec_stream))
        check(rt.cudaEventRecord(self.uploaded, self.codec_stream))
        check(rt.cudaStreamWaitEvent(self.op_stream, self.uploaded, 0))
        check(rt.cudaMemcpyAsync(self.out + index * n, buf, n, D2D, self.op_stream))
        self.scratch.give(buf)

    def fetch(self, host_ptr, batch):
        total = batch * self.frame_bytes
        check(rt.cudaMemcpyAsync(host_ptr, self.out, total, D2H, self.op_stream))
        check(rt.cudaStreamSynchronize(self.op_stream))


def main(batch=16, side=1024):
    check(rt.cudaSetDevice(0))
    stage = DecodeStage(batch, side * side)
    src_ptr, src = pinned((batch, side, side))
    dst_ptr, dst = pinned((batch, side, side))
    src[...] = np.random.randint(0, 255, src.shape, dtype=np.uint8)
    for i in range(batch):
        stage.decode(i, src_ptr + i * side * side)
    stage.fetch(dst_ptr, batch)
    print("mean", float(dst.mean()), float(src.mean()))


if __name__ == "__main__":
    main()
