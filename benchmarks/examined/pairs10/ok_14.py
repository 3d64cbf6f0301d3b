"""Paged transfer of a long record to the device with the driver API."""
import ctypes

import numpy as np
from cuda.bindings import driver


def call(result):
    code, *out = result
    if code != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(code))
    return out[0] if out else None


class Page:
    def __init__(self, nbytes):
        self.host_ptr = call(driver.cuMemAllocHost(nbytes))
        raw = (ctypes.c_uint8 * nbytes).from_address(int(self.host_ptr))
        self.host = np.frombuffer(raw, dtype=np.uint8)
        self.dev = call(driver.cuMemAlloc(nbytes))
        flag = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self.loaded = call(driver.cuEventCreate(flag))
        self.merged = call(driver.cuEventCreate(flag))


class PagedRecord:
    """Gathers pages into one long device record."""

    def __init__(self, nbytes, page_bytes, pages=2):
        flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.load = call(driver.cuStreamCreate(flag))
        self.merge = call(driver.cuStreamCreate(flag))
        self.page_bytes = page_bytes
        self.record = call(driver.cuMemAlloc(nbytes))
        self.pages = [Page(page_bytes) for _ in range(pages)]

    def fill(self, chunks):
        for i, chunk in enumerate(chunks):
            page = self.pages[i % len(self.pages)]
            call(driver.cuEventSynchronize(page.loaded))
            page.host[:] = chunk
            call(driver.cuStreamWaitEvent(self.load, page.merged, 0))
            call(driver.cuMemcpyHtoDAsync(page.dev, page.host_ptr, self.page_bytes, self.load))
            call(driver.cuEventRecord(page.loaded, self.load))
            call(driver.cuStreamWaitEvent(self.merge, page.loaded, 0))
            target = int(self.record) + i * self.page_bytes
            call(driver.cuMemcpyDtoDAsync(target, page.dev, self.page_bytes, self.merge))
            call(driver.cuEventRecord(page.merged, self.merge))
        call(driver.cuStreamSynchronize(self.merge))


def main(page_bytes=4 << 20, count=16):
    call(driver.cuInit(0))
    device = call(driver.cuDeviceGet(0))
    context = call(driver.cuDevicePrimaryCtxRetain(device))
    call(driver.cuCtxSetCurrent(context))
    rng = np.random.default_rng(0)
    record = PagedRecord(page_bytes * count, page_bytes)
    record.fill(rng.integers(0, 255, page_bytes, dtype=np.uint8) for _ in range(count))
    back = np.empty(page_bytes * count, dtype=np.uint8)
    call(driver.cuMemcpyDtoH(back.ctypes.data, record.record, back.nbytes))
    print(int(back.sum()))


if __name__ == "__main__":
    main()
