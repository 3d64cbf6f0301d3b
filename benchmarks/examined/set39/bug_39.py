"""Buffer guard checker and header writer that share a pinned block pool."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt

H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(ret):
    err, rest = ret[0], ret[1:]
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


class PinnedBlock:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = int(check(rt.cudaHostAlloc(nbytes, rt.cudaHostAllocDefault)))
        raw = (ctypes.c_uint8 * nbytes).from_address(self.ptr)
        self.words = np.frombuffer(raw, np.uint32)


class PinnedPool:
    def __init__(self, nbytes=256):
        self.nbytes = nbytes
        self.idle = []

    def take(self):
        return self.idle.pop() if self.idle else PinnedBlock(self.nbytes)

    def give(self, block):
        self.idle.append(block)


class GuardChecker:
    def __init__(self, pool, stream, guard_bytes=64):
        self.pool = pool
        self.stream = stream
        self.guard = guard_bytes

    def verify(self, buffers):
        block = self.pool.take()
        check(rt.cudaMemsetAsync(block.ptr, 0, block.nbytes, self.stream))
        if not buffers:
            self.pool.give(block)
            return []
        broken = []
        for ptr, size in buffers:
            tail = ptr + size - self.guard
            check(rt.cudaMemcpyAsync(block.ptr, tail, self.guard, D2H, self.stream))
            check(rt.cudaStreamSynchronize(self.stream))
            if (block.words[: self.guard // 4] != 0xA5A5A5A5).any():
                broken.append(ptr)
        self.pool.give(block)
        return broken


class HeaderWriter:
    def __init__(self, pool, stream):
        self.pool = pool
        self.stream = stream

    def write_header(self, dev, fields):
        block = self.pool.take()
        block.words[: len(fields)] = fields
        check(rt.cudaMemcpyAsync(dev, block.ptr, 4 * len(fields), H2D, self.stream))
        check(rt.cudaStreamSynchronize(self.stream))
        self.pool.give(block)


def main(size=256 << 20, rounds=16):
    check(rt.cudaSetDevice(0))
    stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
    pool = PinnedPool()
    checker = GuardChecker(pool, stream)
    writer = HeaderWriter(pool, stream)
    payload = check(rt.cudaMalloc(size))
    echo = PinnedBlock(64)
    lost = 0
    for r in range(rounds):
        check(rt.cudaMemsetAsync(payload, 0xA5, size, stream))
        checker.verify([] if r % 2 else [(int(payload), size)])
        check(rt.cudaMemsetAsync(payload, 0x5A, size, stream))
        checker.verify([])
        writer.write_header(payload, [0xC0DE, r, size & 0xFFFFFFFF])
        check(rt.cudaMemcpyAsync(echo.ptr, payload, 12, D2H, stream))
        check(rt.cudaStreamSynchronize(stream))
        lost += int(echo.words[0] != 0xC0DE)
    print("headers lost", lost)


if __name__ == "__main__":
    main()
