"""Relay a buffer between two allocations through pinned host memory."""
import ctypes
import numpy as np
from cuda.bindings import driver as cu


def ok(ret):
    if ret[0] != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(ret[0].name)
    return ret[1] if len(ret) == 2 else ret[1:]


class PinnedRelay:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = ok(cu.cuMemHostAlloc(nbytes, 0))
        addr = int(self.ptr)
        self.array = np.ctypeslib.as_array(
            (ctypes.c_uint32 * (nbytes // 4)).from_address(addr))

    def close(self):
        ok(cu.cuMemFreeHost(self.ptr))


class RelayCopy:
    def __init__(self, nwords):
        self.nwords = nwords
        self.nbytes = nwords * 4
        self.src = ok(cu.cuMemAlloc(self.nbytes))
        self.dst = ok(cu.cuMemAlloc(self.nbytes))
        self.relay = PinnedRelay(self.nbytes)
        self.stream = ok(cu.cuStreamCreate(
            cu.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def run(self, value):
        ok(cu.cuMemsetD32Async(self.src, value, self.nwords, self.stream))
        ok(cu.cuMemcpyDtoHAsync(self.relay.ptr, self.src, self.nbytes, self.stream))
        ok(cu.cuMemcpyHtoDAsync(self.dst, self.relay.ptr, self.nbytes, self.stream))

    def verify(self, value):
        ok(cu.cuStreamSynchronize(self.stream))
        if not (self.relay.array == value).all():
            return False
        self.relay.array[:] = 0
        ok(cu.cuMemcpyDtoHAsync(self.relay.ptr, self.dst, self.nbytes, self.stream))
        ok(cu.cuStreamSynchronize(self.stream))
        return bool((self.relay.array == value).all())

    def close(self):
        self.relay.close()
        ok(cu.cuMemFree(self.src))
        ok(cu.cuMemFree(self.dst))
        ok(cu.cuStreamDestroy(self.stream))


def main():
    ok(cu.cuInit(0))
    dev = ok(cu.cuDeviceGet(0))
    ctx = ok(cu.cuDevicePrimaryCtxRetain(dev))
    ok(cu.cuCtxSetCurrent(ctx))
    copy = RelayCopy(1 << 24)
    for value in (1, 7, 42):
        copy.run(value)
        print(value, copy.verify(value))
    copy.close()


if __name__ == "__main__":
    main()
