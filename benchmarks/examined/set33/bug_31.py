import ctypes
import threading

import numpy as np
from cuda.bindings import runtime as rt

DEFAULT_STREAM = 0


def check(result):
    err, *values = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(err)[1])
    return values[0] if values else None


class DevicePool:
    """Pool whose blocks are not tied to a stream; usable from any thread."""

    def __init__(self, clear: bool = True):
        self.clear = clear
        self._lock = threading.Lock()
        self._sizes = {}

    def allocate(self, nbytes: int) -> int:
        ptr = int(check(rt.cudaMallocAsync(nbytes, DEFAULT_STREAM)))
        if self.clear:
            check(rt.cudaMemsetAsync(ptr, 0, nbytes, DEFAULT_STREAM))
        with self._lock:
            self._sizes[ptr] = nbytes
        return ptr

    def deallocate(self, ptr: int) -> None:
        with self._lock:
            self._sizes.pop(ptr)
        check(rt.cudaDeviceSynchronize())
        check(rt.cudaFreeAsync(ptr, DEFAULT_STREAM))


class PinnedPage:
    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self.ptr = int(check(rt.cudaMallocHost(nbytes)))
        raw = (ctypes.c_uint8 * nbytes).from_address(self.ptr)
        self.array = np.frombuffer(raw, dtype=np.uint8)


class Uploader(threading.Thread):
    """Copies host pages to the device on a private stream."""

    def __init__(self, pool: DevicePool, pages, device: int = 0):
        super().__init__()
        self.pool = pool
        self.pages = pages
        self.device = device
        self.blocks = []

    def _upload(self, page: PinnedPage, stream) -> int:
        dst = self.pool.allocate(page.nbytes)
        check(
            rt.cudaMemcpyAsync(
                dst, page.ptr, page.nbytes, rt.cudaMemcpyKind.cudaMemcpyHostToDevice, stream
            )
        )
        return dst

    def run(self):
        check(rt.cudaSetDevice(self.device))
        stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        for page in self.pages:
            self.blocks.append(self._upload(page, stream))
        check(rt.cudaStreamSynchronize(stream))
        check(rt.cudaStreamDestroy(stream))


def upload_all(arrays):
    pages = []
    for arr in arrays:
        page = PinnedPage(arr.nbytes)
        page.array[:] = arr.view(np.uint8).reshape(-1)
        pages.append(page)
    pool = DevicePool()
    workers = [Uploader(pool, pages[i::2]) for i in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    return pool, [block for w in workers for block in w.blocks]
