"""Stream-ordered allocations that are freed on another stream than they were made on."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt


def check(result):
    err, *rest = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else tuple(rest)


class Courier:
    """Loads blobs on one stream and delivers them to host buffers on another."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.loader = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.sender = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.loaded = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.staging = int(check(rt.cudaHostAlloc(capacity, rt.cudaHostAllocDefault)))
        self.landing = int(check(rt.cudaHostAlloc(capacity, rt.cudaHostAllocDefault)))

    def _view(self, ptr, nbytes):
        return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(ptr))

    def deliver(self, blob, fill=None):
        nbytes = len(blob)
        if nbytes == 0:
            return b""
        if nbytes > self.capacity:
            raise ValueError("blob exceeds the staging buffer")
        self._view(self.staging, nbytes)[:] = np.frombuffer(blob, dtype=np.uint8)
        block = check(rt.cudaMallocAsync(nbytes, self.loader))
        owner = self.loader
        try:
            check(rt.cudaMemcpyAsync(block, self.staging, nbytes,
                                     rt.cudaMemcpyKind.cudaMemcpyHostToDevice,
                                     self.loader))
            check(rt.cudaEventRecord(self.loaded, self.loader))
            check(rt.cudaStreamWaitEvent(self.sender, self.loaded, 0))
            owner = self.sender
            if fill is not None:
                check(rt.cudaMemsetAsync(block, fill, min(4, nbytes), self.sender))
            check(rt.cudaMemcpyAsync(self.landing, block, nbytes,
                                     rt.cudaMemcpyKind.cudaMemcpyDeviceToHost,
                                     self.sender))
        finally:
            check(rt.cudaFreeAsync(block, owner))
            check(rt.cudaStreamSynchronize(self.loader))
            check(rt.cudaStreamSynchronize(self.sender))
        return self._view(self.landing, nbytes).tobytes()

    def close(self):
        check(rt.cudaFreeHost(self.staging))
        check(rt.cudaFreeHost(self.landing))
        check(rt.cudaEventDestroy(self.loaded))
        check(rt.cudaStreamDestroy(self.loader))
        check(rt.cudaStreamDestroy(self.sender))


def main():
    check(rt.cudaSetDevice(0))
    courier = Courier(1 << 16)
    try:
        for size in (0, 1, 100, 1 << 16):
            blob = bytes(i % 251 for i in range(size))
            assert courier.deliver(blob) == blob
            head = min(4, size)
            assert courier.deliver(blob, fill=7) == b"\x07" * head + blob[head:]
    finally:
        courier.close()


if __name__ == "__main__":
    main()
