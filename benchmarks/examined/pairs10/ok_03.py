"""Two-stage filter chain on the CUDA runtime with stream-ordered scratch."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA runtime error {err}")
    return rest[0] if len(rest) == 1 else rest


class ScratchArena:
    """Hands out scratch memory from the pool of one stream."""

    def __init__(self, stream):
        self.stream = stream

    def take(self, nbytes):
        return check(cudart.cudaMallocAsync(nbytes, self.stream))

    def give_back(self, ptr, last_user):
        done = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        check(cudart.cudaEventRecord(done, last_user))
        check(cudart.cudaStreamWaitEvent(self.stream, done, 0))
        check(cudart.cudaFreeAsync(ptr, self.stream))
        check(cudart.cudaEventDestroy(done))


class Mirror:
    """Copies a device block into a second one by way of scratch memory."""

    def __init__(self, nbytes):
        flags = cudart.cudaStreamNonBlocking
        self.nbytes = nbytes
        self.front = check(cudart.cudaStreamCreateWithFlags(flags))
        self.back = check(cudart.cudaStreamCreateWithFlags(flags))
        self.arena = ScratchArena(self.front)
        self.ready = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.result = check(cudart.cudaMalloc(nbytes))

    def step(self, value):
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        scratch = self.arena.take(self.nbytes)
        check(cudart.cudaMemsetAsync(scratch, value, self.nbytes, self.front))
        check(cudart.cudaEventRecord(self.ready, self.front))
        check(cudart.cudaStreamWaitEvent(self.back, self.ready, 0))
        check(cudart.cudaMemcpyAsync(self.result, scratch, self.nbytes, kind, self.back))
        self.arena.give_back(scratch, self.back)

    def fetch(self):
        host = np.empty(self.nbytes, dtype=np.uint8)
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        check(cudart.cudaMemcpyAsync(host.ctypes.data, self.result, self.nbytes, kind, self.back))
        check(cudart.cudaStreamSynchronize(self.back))
        return host

    def close(self):
        check(cudart.cudaStreamSynchronize(self.front))
        check(cudart.cudaStreamSynchronize(self.back))
        check(cudart.cudaFree(self.result))


def main():
    mirror = Mirror(16 << 20)
    for value in range(32):
        mirror.step(value)
    print(mirror.fetch().max(), ctypes.sizeof(ctypes.c_void_p))
    mirror.close()


if __name__ == "__main__":
    main()
