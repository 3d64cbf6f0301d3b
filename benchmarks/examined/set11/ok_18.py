"""Growable device buffers on top of the CUDA virtual memory management API."""
import ctypes
from dataclasses import dataclass
from typing import Optional

import numpy as np
from cuda.bindings import driver


def _check(result):
    err, *values = result
    if err != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"CUDA driver error: {err}")
    return values[0] if len(values) == 1 else tuple(values)


class VirtualMemoryResource:
    def __init__(self, device_id: int):
        self.prop = driver.CUmemAllocationProp()
        self.prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        self.prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        self.prop.location.id = device_id
        flag = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        self.granularity = _check(driver.cuMemGetAllocationGranularity(self.prop, flag))
        self.access = driver.CUmemAccessDesc()
        self.access.location = self.prop.location
        self.access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE

    def _aligned(self, size: int) -> int:
        return (size + self.granularity - 1) // self.granularity * self.granularity

    def allocate(self, size: int) -> "Buffer":
        size = self._aligned(size)
        handle = _check(driver.cuMemCreate(size, self.prop, 0))
        ptr = _check(driver.cuMemAddressReserve(size, 0, 0, 0))
        _check(driver.cuMemMap(ptr, size, 0, handle, 0))
        _check(driver.cuMemRelease(handle))
        _check(driver.cuMemSetAccess(ptr, size, [self.access], 1))
        return Buffer(self, ptr, size)

    def deallocate(self, ptr, size: int, stream: driver.CUstream) -> None:
        """Release a buffer in the order of ``stream``."""
        if stream is None:
            raise ValueError("a stream is required")
        _check(driver.cuStreamSynchronize(stream))
        _check(driver.cuMemUnmap(ptr, size))
        _check(driver.cuMemAddressFree(ptr, size))


@dataclass
class Buffer:
    mr: VirtualMemoryResource
    ptr: Optional[driver.CUdeviceptr]
    size: int

    def close(self, stream: driver.CUstream) -> None:
        if self.ptr is not None:
            self.mr.deallocate(self.ptr, self.size, stream)
            self.ptr = None


class BlockAccumulator:
    """Runs ``fn(out, x, n)`` over host blocks; scratch buffers are given back as soon as they are enqueued."""

    def __init__(self, device_id: int, function, block_elems: int):
        self.mr = VirtualMemoryResource(device_id)
        self.function = function
        self.n = block_elems
        self.stream = _check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.out = self.mr.allocate(4 * block_elems)
        _check(driver.cuMemsetD32Async(self.out.ptr, 0, block_elems, self.stream))

    def add(self, block: np.ndarray) -> None:
        scratch = self.mr.allocate(block.nbytes)
        _check(driver.cuMemcpyHtoDAsync(scratch.ptr, block.ctypes.data, block.nbytes, self.stream))
        args = ((int(self.out.ptr), int(scratch.ptr), self.n), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
        grid = (self.n + 255) // 256
        _check(driver.cuLaunchKernel(self.function, grid, 1, 1, 256, 1, 1, 0, self.stream, args, 0))
        scratch.close(self.stream)

    def result(self) -> np.ndarray:
        host = np.empty(self.n, dtype=np.float32)
        _check(driver.cuMemcpyDtoHAsync(host.ctypes.data, self.out.ptr, host.nbytes, self.stream))
        _check(driver.cuStreamSynchronize(self.stream))
        return host
