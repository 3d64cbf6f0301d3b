"""Two-phase sparse product: count non-zeros, then fill (driver API)."""
import ctypes

import numpy as np
from cuda.bindings import driver as drv
from cuda.bindings import nvrtc

SRC = b"""
extern "C" __global__ void count(const float* a, int n, float thr, int* nnz) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && fabsf(a[i]) > thr) atomicAdd(nnz, 1);
}
extern "C" __global__ void fill(const float* a, int n, float thr, int* cur, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && fabsf(a[i]) > thr) out[atomicAdd(cur, 1)] = a[i];
}
"""


def check(res):
    err, rest = res[0], res[1:]
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


class SparseCompactor:
    def __init__(self, stream):
        self.stream = stream
        prog = check(nvrtc.nvrtcCreateProgram(SRC, b"sp.cu", 0, [], []))
        check(nvrtc.nvrtcCompileProgram(prog, 1, [b"--gpu-architecture=compute_80"]))
        ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
        check(nvrtc.nvrtcGetPTX(prog, ptx))
        mod = check(drv.cuModuleLoadData(ptx))
        self.count_fn = check(drv.cuModuleGetFunction(mod, b"count"))
        self.fill_fn = check(drv.cuModuleGetFunction(mod, b"fill"))
        self.d_nnz = check(drv.cuMemAlloc(4))
        self.h_nnz_ptr = check(drv.cuMemAllocHost(4))
        self.h_nnz = ctypes.cast(self.h_nnz_ptr, ctypes.POINTER(ctypes.c_int32))

    def _launch(self, fn, n, *args):
        ptrs = np.array([a.ctypes.data for a in args], np.uint64)
        check(drv.cuLaunchKernel(fn, (n + 255) // 256, 1, 1, 256, 1, 1,
                                 0, self.stream, ptrs.ctypes.data, 0))

    def compact(self, d_a, n, threshold):
        a = np.array([int(d_a)], np.uint64)
        nn, thr = np.array([n], np.int32), np.array([threshold], np.float32)
        cnt = np.array([int(self.d_nnz)], np.uint64)
        check(drv.cuMemsetD32Async(self.d_nnz, 0, 1, self.stream))
        self._launch(self.count_fn, n, a, nn, thr, cnt)
        check(drv.cuMemcpyDtoHAsync(self.h_nnz_ptr, self.d_nnz, 4, self.stream))
        nnz = int(self.h_nnz[0])
        d_out = check(drv.cuMemAllocAsync(max(nnz, 1) * 4, self.stream))
        check(drv.cuMemsetD32Async(self.d_nnz, 0, 1, self.stream))
        self._launch(self.fill_fn, n, a, nn, thr, cnt, np.array([int(d_out)], np.uint64))
        return nnz, d_out


def main():
    check(drv.cuInit(0))
    ctx = check(drv.cuDevicePrimaryCtxRetain(check(drv.cuDeviceGet(0))))
    check(drv.cuCtxSetCurrent(ctx))
    stream = check(drv.cuStreamCreate(drv.CUstream_flags.CU_STREAM_NON_BLOCKING))
    comp = SparseCompactor(stream)
    n = 1 << 24
    host = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    d_a = check(drv.cuMemAlloc(host.nbytes))
    check(drv.cuMemcpyHtoDAsync(d_a, host.ctypes.data, host.nbytes, stream))
    for thr in (1.0, 2.0, 0.5):
        nnz, d_out = comp.compact(d_a, n, thr)
        check(drv.cuMemFreeAsync(d_out, stream))
        print(thr, nnz)
    check(drv.cuStreamSynchronize(stream))


if __name__ == "__main__":
    main()
