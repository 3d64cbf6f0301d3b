"""Stream-ordered scratch memory with cuda-python: allocated on one stream, used on another."""
import contextlib
import ctypes

import numpy as np
from cuda.bindings import runtime as rt


def check(result):
    err, *values = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(err)[1].decode())
    return values[0] if values else None


def make_stream():
    return check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))


def make_event():
    return check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))


class Scratch:
    """Device memory that belongs to `owner`; a guest stream may borrow it."""

    def __init__(self, owner, nbytes):
        self.owner, self.nbytes = owner, nbytes
        self.ptr = check(rt.cudaMallocAsync(nbytes, owner))
        self.allocated, self.returned = make_event(), make_event()
        check(rt.cudaEventRecord(self.allocated, owner))

    @contextlib.contextmanager
    def lend(self, guest):
        check(rt.cudaStreamWaitEvent(guest, self.allocated, 0))
        try:
            yield self.ptr
        finally:
            check(rt.cudaEventRecord(self.returned, guest))
            check(rt.cudaStreamWaitEvent(self.owner, self.returned, 0))

    def close(self):
        check(rt.cudaFreeAsync(self.ptr, self.owner))
        check(rt.cudaEventDestroy(self.allocated))
        check(rt.cudaEventDestroy(self.returned))


class Mirror:
    """Copies host blocks through scratch memory and reads them back."""

    def __init__(self, count):
        self.nbytes = count * 4
        self.owner, self.guest = make_stream(), make_stream()
        self.done = make_event()
        self.src = self._pinned(count)
        self.dst = self._pinned(count)

    def _pinned(self, count):
        ptr = check(rt.cudaHostAlloc(count * 4, rt.cudaHostAllocDefault))
        raw = (ctypes.c_float * count).from_address(int(ptr))
        return int(ptr), np.frombuffer(raw, dtype=np.float32)

    def roundtrip(self, values):
        kinds = rt.cudaMemcpyKind
        scratch = Scratch(self.owner, self.nbytes)
        self.src[1][:] = values
        with scratch.lend(self.guest) as device:
            check(rt.cudaMemcpyAsync(device, self.src[0], self.nbytes,
                                     kinds.cudaMemcpyHostToDevice, self.guest))
            check(rt.cudaMemcpyAsync(self.dst[0], device, self.nbytes,
                                     kinds.cudaMemcpyDeviceToHost, self.guest))
            check(rt.cudaEventRecord(self.done, self.guest))
        scratch.close()
        check(rt.cudaEventSynchronize(self.done))
        return self.dst[1].copy()


if __name__ == "__main__":
    mirror = Mirror(1 << 20)
    for i in range(8):
        block = np.full(1 << 20, i, dtype=np.float32)
        assert np.array_equal(mirror.roundtrip(block), block)
    print("ok")
