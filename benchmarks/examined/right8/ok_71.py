"""cuda-python: frames bounced between two devices with peer copies and events both ways."""
import ctypes
from contextlib import contextmanager

import numpy as np
from cuda.bindings import runtime as rt

KIND = rt.cudaMemcpyKind


def check(ret):
    err, *rest = ret
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


@contextmanager
def device(ordinal):
    previous = check(rt.cudaGetDevice())
    check(rt.cudaSetDevice(ordinal))
    try:
        yield
    finally:
        check(rt.cudaSetDevice(previous))


class Side:
    def __init__(self, ordinal, nbytes):
        self.ordinal, self.nbytes = ordinal, nbytes
        with device(ordinal):
            self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
            self.buffer = check(rt.cudaMalloc(nbytes))
            self.filled = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
            self.emptied = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))

    def fill(self, value, reader):
        with device(self.ordinal):
            check(rt.cudaStreamWaitEvent(self.stream, reader.emptied, 0))
            check(rt.cudaMemsetAsync(self.buffer, value, self.nbytes, self.stream))
            check(rt.cudaEventRecord(self.filled, self.stream))

    def pull(self, source):
        with device(self.ordinal):
            check(rt.cudaStreamWaitEvent(self.stream, source.filled, 0))
            check(rt.cudaMemcpyPeerAsync(self.buffer, self.ordinal, source.buffer,
                                         source.ordinal, self.nbytes, self.stream))
            check(rt.cudaEventRecord(self.emptied, self.stream))

    def close(self):
        with device(self.ordinal):
            check(rt.cudaStreamSynchronize(self.stream))
            check(rt.cudaFree(self.buffer))
            check(rt.cudaStreamDestroy(self.stream))


def main(rounds=8, nbytes=1 << 20):
    left, right = Side(0, nbytes), Side(1, nbytes)
    with device(1):
        host = check(rt.cudaMallocHost(rounds * nbytes))
    try:
        for k in range(rounds):
            left.fill(k, right)
            right.pull(left)
            with device(1):
                check(rt.cudaMemcpyAsync(int(host) + k * nbytes, right.buffer, nbytes,
                                         KIND.cudaMemcpyDeviceToHost, right.stream))
    finally:
        left.close()
        right.close()
    raw = (ctypes.c_ubyte * (rounds * nbytes)).from_address(int(host))
    first = np.frombuffer(raw, np.uint8).reshape(rounds, nbytes)[:, 0].tolist()
    check(rt.cudaFreeHost(host))
    return first


if __name__ == "__main__":
    print(main())
