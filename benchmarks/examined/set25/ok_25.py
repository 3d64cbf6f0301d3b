"""Fancy indexing on the device with a host index list staged per call."""
import numpy as np
from cuda.bindings import driver as drv
from cuda.bindings import nvrtc
from cuda.bindings import runtime as rt

SRC = b"""
extern "C" __global__ void take(const float* x, const long long* idx, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[idx[i]];
}
"""


def check(res):
    err, rest = res[0], res[1:]
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


def compile_take():
    prog = check(nvrtc.nvrtcCreateProgram(SRC, b"take.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 1, [b"--gpu-architecture=compute_80"]))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    module = check(drv.cuModuleLoadData(ptx))
    return check(drv.cuModuleGetFunction(module, b"take"))


class Indexer:
    def __init__(self, capacity, stream):
        self.kernel = compile_take()
        self.stream = stream
        self.staging = np.empty(capacity, np.int64)
        self.d_idx = check(rt.cudaMalloc(self.staging.nbytes))

    def take(self, d_x, indices, d_y):
        n = len(indices)
        self.staging[:n] = indices
        check(rt.cudaMemcpyAsync(
            self.d_idx, self.staging.ctypes.data, n * 8,
            rt.cudaMemcpyKind.cudaMemcpyHostToDevice, self.stream))
        args = (np.array([int(d_x)], np.uint64), np.array([int(self.d_idx)], np.uint64),
                np.array([int(d_y)], np.uint64), np.array([n], np.int32))
        ptrs = np.array([a.ctypes.data for a in args], np.uint64)
        check(drv.cuLaunchKernel(
            self.kernel, (n + 255) // 256, 1, 1, 256, 1, 1, 0, self.stream, ptrs.ctypes.data, 0))


def main():
    check(rt.cudaFree(0))
    n, rounds, width = 1 << 20, 16, 4096
    stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
    x = np.arange(n, dtype=np.float32)
    d_x = check(rt.cudaMalloc(x.nbytes))
    d_y = check(rt.cudaMalloc(rounds * width * 4))
    check(rt.cudaMemcpyAsync(
        d_x, x.ctypes.data, x.nbytes, rt.cudaMemcpyKind.cudaMemcpyHostToDevice, stream))
    indexer = Indexer(width, stream)
    rng = np.random.default_rng(1)
    for r in range(rounds):
        indexer.take(d_x, rng.integers(0, n, width), int(d_y) + r * width * 4)
    out = np.empty((rounds, width), np.float32)
    check(rt.cudaMemcpyAsync(
        out.ctypes.data, d_y, out.nbytes, rt.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream))
    check(rt.cudaStreamSynchronize(stream))
    print(out.mean(axis=1))


if __name__ == "__main__":
    main()
