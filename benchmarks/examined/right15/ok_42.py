"""Moves frames host to device to host with cuda-python runtime calls."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt


def check(result):
    err, *rest = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else tuple(rest)


class PinnedFrame:
    def __init__(self, nbytes):
        self.ptr = int(check(rt.cudaHostAlloc(nbytes, rt.cudaHostAllocDefault)))
        self.array = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(self.ptr))

    def free(self):
        self.array = None
        check(rt.cudaFreeHost(self.ptr))


class FrameHistory:
    """Keeps the newest frames resident; any of them can be read back."""

    def __init__(self, nbytes, resident=4):
        self.nbytes = nbytes
        self.up = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.down = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.frames = [int(check(rt.cudaMalloc(nbytes))) for _ in range(resident)]
        self.staging = [PinnedFrame(nbytes) for _ in range(2)]
        self.landing = PinnedFrame(nbytes)
        flag = rt.cudaEventDisableTiming
        self.sent = [check(rt.cudaEventCreateWithFlags(flag)) for _ in range(2)]
        self.written = [check(rt.cudaEventCreateWithFlags(flag)) for _ in range(resident)]
        self.pushed = 0

    def push(self, frame):
        s = self.pushed % 2
        k = self.pushed % len(self.frames)
        check(rt.cudaEventSynchronize(self.sent[s]))
        self.staging[s].array[:] = frame
        check(rt.cudaMemcpyAsync(self.frames[k], self.staging[s].ptr, self.nbytes,
                                 rt.cudaMemcpyKind.cudaMemcpyHostToDevice, self.up))
        check(rt.cudaEventRecord(self.sent[s], self.up))
        check(rt.cudaEventRecord(self.written[k], self.up))
        self.pushed += 1

    def read(self, age=0):
        if not 0 <= age < min(self.pushed, len(self.frames)):
            raise IndexError("frame is not resident")
        k = (self.pushed - 1 - age) % len(self.frames)
        check(rt.cudaStreamWaitEvent(self.down, self.written[k], 0))
        check(rt.cudaMemcpyAsync(self.landing.ptr, self.frames[k], self.nbytes,
                                 rt.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.down))
        check(rt.cudaStreamSynchronize(self.down))
        return self.landing.array.copy()

    def close(self):
        check(rt.cudaStreamSynchronize(self.up))
        check(rt.cudaStreamSynchronize(self.down))
        for ptr in self.frames:
            check(rt.cudaFree(ptr))
        for frame in (*self.staging, self.landing):
            frame.free()
        for event in (*self.sent, *self.written):
            check(rt.cudaEventDestroy(event))
        check(rt.cudaStreamDestroy(self.up))
        check(rt.cudaStreamDestroy(self.down))


def main():
    check(rt.cudaSetDevice(0))
    history = FrameHistory(1 << 20)
    try:
        for i in range(11):
            history.push(np.uint8(i))
            assert history.read()[0] == i
            if i >= 3:
                assert history.read(age=3)[-1] == i - 3
    finally:
        history.close()


if __name__ == "__main__":
    main()
