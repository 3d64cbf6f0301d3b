"""Allocator of the CUDA backend: pinned staging with a pending list."""
import ctypes

import cupy as cp
import numpy as np
from cuda.bindings import driver


def check(result):
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


class CUDADevice:
    def __init__(self, index=0):
        check(driver.cuInit(0))
        self.cu_device = check(driver.cuDeviceGet(index))
        self.context = check(driver.cuDevicePrimaryCtxRetain(self.cu_device))
        check(driver.cuCtxSetCurrent(self.context))
        self.stream = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.pending_copyin = []
        self.allocator = CUDAAllocator(self)

    def synchronize(self):
        check(driver.cuStreamSynchronize(self.stream))
        for ptr, nbytes in self.pending_copyin:
            self.allocator.host_cache.setdefault(nbytes, []).append(ptr)
        self.pending_copyin.clear()


class CUDAAllocator:
    def __init__(self, device):
        self.device = device
        self.host_cache = {}

    def alloc(self, nbytes):
        return check(driver.cuMemAlloc(nbytes))

    def alloc_host(self, nbytes):
        cached = self.host_cache.get(nbytes)
        if cached:
            return cached.pop()
        return check(driver.cuMemHostAlloc(nbytes, 0))

    def copyin(self, dest, src):
        host = self.alloc_host(src.nbytes)
        self.device.pending_copyin.append((host, src.nbytes))
        ctypes.memmove(int(host), src.ctypes.data, src.nbytes)
        check(driver.cuMemcpyHtoDAsync(dest, int(host), src.nbytes, self.device.stream))

    def copyout(self, dest, src):
        self.device.synchronize()
        check(driver.cuMemcpyDtoH(dest.ctypes.data, src, dest.nbytes))

    def free(self, ptr):
        self.device.synchronize()
        check(driver.cuMemFree(ptr))


SCALE = cp.RawKernel(r"""
extern "C" __global__ void scale(float* y, const float* x, int n, float s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += s * x[i];
}
""", "scale")


def main(n=1 << 20, rounds=50):
    dev = CUDADevice()
    alloc = dev.allocator
    x, y = alloc.alloc(n * 4), alloc.alloc(n * 4)
    alloc.copyin(y, np.zeros(n, dtype=np.float32))
    stream = cp.cuda.ExternalStream(int(dev.stream))
    src = np.empty(n, dtype=np.float32)
    out = np.empty(n, dtype=np.float32)
    for r in range(rounds):
        src[:] = r
        alloc.copyin(x, src)
        with stream:
            SCALE(((n + 255) // 256,), (256,),
                  (np.uint64(int(y)), np.uint64(int(x)), np.int32(n), np.float32(0.5)))
        if r % 16 == 15:
            dev.synchronize()
    alloc.copyout(out, y)
    alloc.free(x)
    alloc.free(y)
    return out


if __name__ == "__main__":
    print(main()[:4])
