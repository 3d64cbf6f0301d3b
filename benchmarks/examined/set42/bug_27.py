"""Growable device vector on the CUDA virtual memory API (cuda.bindings)."""
from cuda.bindings import driver

GROWTH = 2


def check(result):
    err = result[0]
    if err != driver.CUresult.CUDA_SUCCESS:
        _, name = driver.cuGetErrorName(err)
        raise RuntimeError(name.decode())
    if len(result) == 1:
        return None
    return result[1] if len(result) == 2 else result[1:]


class Mapping:
    """A reserved address range with physical memory mapped to it."""

    def __init__(self, device: int, nbytes: int):
        prop = driver.CUmemAllocationProp()
        prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        prop.location.id = device
        granularity = check(
            driver.cuMemGetAllocationGranularity(
                prop,
                driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM,
            )
        )
        self.nbytes = (nbytes + granularity - 1) // granularity * granularity
        self.handle = check(driver.cuMemCreate(self.nbytes, prop, 0))
        self.ptr = check(driver.cuMemAddressReserve(self.nbytes, 0, 0, 0))
        check(driver.cuMemMap(self.ptr, self.nbytes, 0, self.handle, 0))
        access = driver.CUmemAccessDesc()
        access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = device
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        check(driver.cuMemSetAccess(self.ptr, self.nbytes, [access], 1))

    def release(self):
        check(driver.cuMemUnmap(self.ptr, self.nbytes))
        check(driver.cuMemAddressFree(self.ptr, self.nbytes))
        check(driver.cuMemRelease(self.handle))


class DeviceVector:
    def __init__(self, device: int, capacity: int, stream):
        self.device = device
        self.stream = stream
        self.mapping = Mapping(device, capacity)
        self.size = 0

    @property
    def capacity(self) -> int:
        return self.mapping.nbytes

    def reserve(self, nbytes: int):
        if nbytes <= self.capacity:
            return
        old = self.mapping
        self.mapping = Mapping(self.device, max(nbytes, GROWTH * old.nbytes))
        if self.size:
            check(
                driver.cuMemcpyDtoDAsync(
                    self.mapping.ptr, old.ptr, self.size, self.stream
                )
            )
        old.release()

    def extend_fill(self, value: int, words: int):
        nbytes = 4 * words
        self.reserve(self.size + nbytes)
        start = int(self.mapping.ptr) + self.size
        check(driver.cuMemsetD32Async(start, value, words, self.stream))
        self.size += nbytes

    def to_host(self) -> bytearray:
        out = bytearray(self.size)
        check(driver.cuStreamSynchronize(self.stream))
        check(driver.cuMemcpyDtoH(out, self.mapping.ptr, self.size))
        return out


def main():
    check(driver.cuInit(0))
    dev = check(driver.cuDeviceGet(0))
    ctx = check(driver.cuDevicePrimaryCtxRetain(dev))
    check(driver.cuCtxSetCurrent(ctx))
    stream = check(
        driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    )
    vec = DeviceVector(0, 1 << 21, stream)
    for i in range(24):
        vec.extend_fill(i, 1 << 20)
    data = vec.to_host()
    vec.mapping.release()
    check(driver.cuStreamDestroy(stream))
    check(driver.cuDevicePrimaryCtxRelease(dev))
    print(len(data))


if __name__ == "__main__":
    main()
