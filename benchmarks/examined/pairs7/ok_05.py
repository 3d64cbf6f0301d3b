"""Prefix sums of event lists with stream-ordered scratch memory."""
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc
from cuda.bindings import runtime as cudart

SOURCE = br"""
extern "C" __global__ void block_sums(const float *x, float *partial, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.f;
    __syncthreads();
    for (int k = 128; k; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (!threadIdx.x) partial[blockIdx.x] = s[0];
}
extern "C" __global__ void fold(const float *partial, float *out, int blocks) {
    float s = 0.f;
    for (int i = 0; i < blocks; ++i) s += partial[i];
    *out = s;
}
"""


def check(result):
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) == 2 else result[1:]


def load(names):
    check(cudart.cudaFree(0))
    prog = check(nvrtc.nvrtcCreateProgram(SOURCE, b"sums.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 0, []))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    module = check(driver.cuModuleLoadData(ptx))
    return [check(driver.cuModuleGetFunction(module, name)) for name in names]


class Scratch:
    def __init__(self, nbytes, home, guest):
        self.nbytes, self.home, self.guest = nbytes, home, guest
        self.event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))

    def __enter__(self):
        self.ptr = check(cudart.cudaMallocAsync(self.nbytes, self.home))
        return self

    def hand_over(self):
        check(cudart.cudaEventRecord(self.event, self.home))
        check(cudart.cudaStreamWaitEvent(self.guest, self.event, 0))

    def __exit__(self, *exc):
        check(cudart.cudaEventRecord(self.event, self.guest))
        check(cudart.cudaStreamWaitEvent(self.home, self.event, 0))
        check(cudart.cudaFreeAsync(self.ptr, self.home))
        check(cudart.cudaEventDestroy(self.event))


def main(n=1 << 20, rounds=50):
    block_sums, fold = load([b"block_sums", b"fold"])
    flags = cudart.cudaStreamNonBlocking
    first = check(cudart.cudaStreamCreateWithFlags(flags))
    second = check(cudart.cudaStreamCreateWithFlags(flags))
    host = np.ones(n, np.float32)
    x, out = check(cudart.cudaMalloc(host.nbytes)), check(cudart.cudaMalloc(4 * rounds))
    check(cudart.cudaMemcpy(x, host.ctypes.data, host.nbytes,
                            cudart.cudaMemcpyKind.cudaMemcpyHostToDevice))
    check(cudart.cudaDeviceSynchronize())
    blocks = (n + 255) // 256
    for r in range(rounds):
        with Scratch(4 * blocks, first, second) as scratch:
            args = ((x, scratch.ptr, n), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
            check(driver.cuLaunchKernel(block_sums, blocks, 1, 1, 256, 1, 1, 0, int(first), args, 0))
            scratch.hand_over()
            args = ((scratch.ptr, int(out) + 4 * r, blocks),
                    (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
            check(driver.cuLaunchKernel(fold, 1, 1, 1, 1, 1, 1, 0, int(second), args, 0))
    check(cudart.cudaStreamSynchronize(second))
    sums = np.empty(rounds, np.float32)
    check(cudart.cudaMemcpy(sums.ctypes.data, out, sums.nbytes,
                            cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    print(sums)


if __name__ == "__main__":
    main()
