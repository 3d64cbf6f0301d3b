import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = rb"""
extern "C" __global__ void dequant(const signed char* q, const float* scale, float* out, int cols, long long n)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = q[i] * scale[i / cols];
}
"""


def check(result):
    err, *values = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return values[0] if len(values) == 1 else tuple(values)


class CuMemAllocator:
    """Physical memory handles mapped one by one, so that a pool can be put to sleep."""

    def __init__(self, device):
        self.prop = driver.CUmemAllocationProp()
        self.prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        self.prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        self.prop.location.id = int(device)
        self.granularity = check(driver.cuMemGetAllocationGranularity(
            self.prop, driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM))
        self.pointer_to_handle = {}

    def malloc_callback(self, nbytes):
        size = (nbytes + self.granularity - 1) // self.granularity * self.granularity
        ptr = check(driver.cuMemAddressReserve(size, 0, 0, 0))
        handle = check(driver.cuMemCreate(size, self.prop, 0))
        check(driver.cuMemMap(ptr, size, 0, handle, 0))
        access = driver.CUmemAccessDesc()
        access.location = self.prop.location
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        check(driver.cuMemSetAccess(ptr, size, [access], 1))
        self.pointer_to_handle[int(ptr)] = (size, handle)
        return int(ptr)

    def free_callback(self, ptr):
        size, handle = self.pointer_to_handle.pop(ptr)
        check(driver.cuMemUnmap(ptr, size))
        check(driver.cuMemRelease(handle))
        check(driver.cuMemAddressFree(ptr, size))


class DeviceTensor:
    def __init__(self, allocator, shape, dtype):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize
        self._allocator = allocator
        self.ptr = allocator.malloc_callback(self.nbytes)

    def __del__(self):
        self._allocator.free_callback(self.ptr)


class PinnedArray:
    def __init__(self, source):
        self.nbytes = source.nbytes
        self.ptr = int(check(driver.cuMemHostAlloc(source.nbytes, 0)))
        ctypes.memmove(self.ptr, source.ctypes.data, source.nbytes)


class WeightLoader:
    def __init__(self, allocator, kernel, stream):
        self.allocator, self.kernel, self.stream = allocator, kernel, stream

    def upload(self, pinned, shape, dtype):
        tensor = DeviceTensor(self.allocator, shape, dtype)
        check(driver.cuMemcpyHtoDAsync(tensor.ptr, pinned.ptr, pinned.nbytes, self.stream))
        return tensor

    def load(self, weight, quantized, scale):
        rows, cols = weight.shape
        q = self.upload(quantized, weight.shape, np.int8)
        s = self.upload(scale, (rows,), np.float32)
        values = (q.ptr, s.ptr, weight.ptr, cols, rows * cols)
        types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong)
        grid = (rows * cols + 255) // 256
        check(driver.cuLaunchKernel(self.kernel, grid, 1, 1, 256, 1, 1, 0, self.stream, (values, types), 0))
        del q, s


def compile_kernel():
    program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"dequant.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 0, []))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(program))
    check(nvrtc.nvrtcGetPTX(program, ptx))
    module = check(driver.cuModuleLoadData(ptx))
    return check(driver.cuModuleGetFunction(module, b"dequant"))


def main(layers=48, rows=4096, cols=4096):
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
    stream = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    allocator = CuMemAllocator(device)
    loader = WeightLoader(allocator, compile_kernel(), stream)
    quantized = [PinnedArray(np.full((rows, cols), i % 127, np.int8)) for i in range(layers)]
    scales = [PinnedArray(np.full(rows, 0.01, np.float32)) for _ in range(layers)]
    weights = [DeviceTensor(allocator, (rows, cols), np.float32) for _ in range(layers)]
    for weight, q, s in zip(weights, quantized, scales):
        loader.load(weight, q, s)
    check(driver.cuStreamSynchronize(stream))
    print("loaded", sum(w.nbytes for w in weights) >> 20, "MiB")


if __name__ == "__main__":
    main()
