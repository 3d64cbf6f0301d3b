import ctypes
import queue

import numpy as np
from cuda.bindings import driver

HOST_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def check(result):
    err, *values = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return values[0] if len(values) == 1 else tuple(values)


class StagingPool:
    """Page-locked regions that a stream gives back when it has passed their copies."""

    def __init__(self, regions, size):
        self.size = size
        self.base = int(check(driver.cuMemHostAlloc(regions * size, 0)))
        self.free = queue.SimpleQueue()
        for ticket in range(1, regions + 1):
            self.free.put(ticket)
        self._callback = HOST_FN(self._recycle)
        self._fn = driver.CUhostFn(_ptr=ctypes.addressof(self._callback))

    def _recycle(self, ticket):
        self.free.put(ticket)

    def acquire(self):
        return self.free.get()

    def address(self, ticket):
        return self.base + (ticket - 1) * self.size

    def view(self, ticket, nbytes):
        raw = (ctypes.c_ubyte * nbytes).from_address(self.address(ticket))
        return np.frombuffer(raw, dtype=np.uint8)

    def release_after(self, ticket, stream):
        check(driver.cuLaunchHostFunc(stream, self._fn, ticket))

    def close(self):
        check(driver.cuMemFreeHost(self.base))


class Buffer:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = int(check(driver.cuMemAlloc(nbytes)))

    def close(self):
        check(driver.cuMemFree(self.ptr))


class CommandStream:
    def __init__(self, pool):
        self.handle = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.pool = pool

    def upload(self, buffer, data):
        """Copies a pageable array; the array may be changed when the call returns."""
        source = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        offset = 0
        while offset < source.size:
            part = source[offset:offset + self.pool.size]
            ticket = self.pool.acquire()
            self.pool.view(ticket, part.size)[:] = part
            check(driver.cuMemcpyHtoDAsync(
                buffer.ptr + offset, self.pool.address(ticket), part.size, self.handle))
            self.pool.release_after(ticket, self.handle)
            offset += part.size

    def download(self, buffer):
        out = np.empty(buffer.nbytes, dtype=np.uint8)
        self.synchronize()
        check(driver.cuMemcpyDtoH(out.ctypes.data, buffer.ptr, buffer.nbytes))
        return out

    def synchronize(self):
        check(driver.cuStreamSynchronize(self.handle))

    def close(self):
        self.synchronize()
        check(driver.cuStreamDestroy(self.handle))


def main(buffers=64, nbytes=3 << 20):
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))

    pool = StagingPool(regions=8, size=1 << 20)
    stream = CommandStream(pool)
    targets = [Buffer(nbytes) for _ in range(buffers)]

    scratch = np.empty(nbytes, dtype=np.uint8)
    for index, target in enumerate(targets):
        scratch[:] = index
        stream.upload(target, scratch)
    for index, target in enumerate(targets):
        assert (stream.download(target) == index).all()

    for target in targets:
        target.close()
    stream.close()
    pool.close()
    check(driver.cuDevicePrimaryCtxRelease(device))


if __name__ == "__main__":
    main()
