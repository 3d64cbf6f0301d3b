"""Ghost cells moved through short-lived stream-ordered allocations."""
import ctypes
from contextlib import contextmanager

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])
    return rest[0] if len(rest) == 1 else tuple(rest)


class Event:
    def __init__(self):
        self.handle = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))

    def record(self, stream):
        check(cudart.cudaEventRecord(self.handle, stream))
        return self

    def gate(self, stream):
        check(cudart.cudaStreamWaitEvent(stream, self.handle, 0))


@contextmanager
def scratch(nbytes: int, owner, user):
    """A temporary allocation passed from `owner` to `user`."""
    ptr = check(cudart.cudaMallocAsync(nbytes, owner))
    done = Event()
    try:
        yield ptr
    finally:
        done.record(owner).gate(user)
        check(cudart.cudaFreeAsync(ptr, user))


class GhostMover:
    def __init__(self, n: int):
        self.n = n
        self.nbytes = n * 4
        self.pack = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.unpack = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.field = check(cudart.cudaMalloc(self.nbytes * 4))
        self.packed = Event()
        self.unpacked = Event()
        raw = check(cudart.cudaMallocHost(self.nbytes))
        self.host = np.ctypeslib.as_array(ctypes.cast(raw, ctypes.POINTER(ctypes.c_float)), (n,))
        self.raw = raw

    def step(self, value: int) -> None:
        d2d = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        self.unpacked.gate(self.pack)
        with scratch(self.nbytes, self.pack, self.unpack) as tmp:
            check(cudart.cudaMemsetAsync(self.field, value, self.nbytes, self.pack))
            check(cudart.cudaMemcpyAsync(tmp, self.field, self.nbytes, d2d, self.pack))
            self.packed.record(self.pack).gate(self.unpack)
            check(cudart.cudaMemcpyAsync(self.field + 3 * self.nbytes, tmp, self.nbytes, d2d, self.unpack))
            self.unpacked.record(self.unpack)

    def read(self) -> np.ndarray:
        d2h = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        check(cudart.cudaMemcpyAsync(self.raw, self.field + 3 * self.nbytes, self.nbytes, d2h, self.unpack))
        check(cudart.cudaStreamSynchronize(self.unpack))
        return self.host.copy()


def main():
    mover = GhostMover(1 << 16)
    for i in range(50):
        mover.step(i)
    print(mover.read().view(np.uint8)[:8])


if __name__ == "__main__":
    main()
