"""Residual norms of an iterative solver, computed beside the iteration."""
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc
from cuda.bindings import runtime as cudart

SOURCE = br"""
extern "C" __global__ void relax(const float *x, float *y, float *residual, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= 0 || i >= n - 1) return;
    float v = 0.5f * (x[i - 1] + x[i + 1]);
    residual[i] = v - x[i];
    y[i] = v;
}
extern "C" __global__ void norm(const float *residual, float *out, int n) {
    float s = 0.f;
    for (int i = 1 + threadIdx.x; i < n - 1; i += blockDim.x) s += residual[i] * residual[i];
    atomicAdd(out, s);
}
"""


def ok(ret):
    err, *rest = ret
    if int(err):
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


def kernels():
    ok(cudart.cudaFree(0))
    prog = ok(nvrtc.nvrtcCreateProgram(SOURCE, b"relax.cu", 0, [], []))
    ok(nvrtc.nvrtcCompileProgram(prog, 0, []))
    ptx = b" " * ok(nvrtc.nvrtcGetPTXSize(prog))
    ok(nvrtc.nvrtcGetPTX(prog, ptx))
    module = ok(driver.cuModuleLoadData(ptx))
    return ok(driver.cuModuleGetFunction(module, b"relax")), ok(driver.cuModuleGetFunction(module, b"norm"))


class Relaxation:
    def __init__(self, n, steps):
        self.relax, self.norm = kernels()
        self.n = n
        self.main = ok(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.side = ok(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.done = ok(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.x, self.y = (ok(cudart.cudaMalloc(4 * n)) for _ in range(2))
        self.norms = ok(cudart.cudaMalloc(4 * steps))
        ok(cudart.cudaMemset(self.x, 0, 4 * n))
        ok(cudart.cudaMemset(self.y, 0, 4 * n))
        ok(cudart.cudaMemset(self.norms, 0, 4 * steps))
        ok(cudart.cudaDeviceSynchronize())

    def step(self, k):
        n = self.n
        residual = ok(cudart.cudaMallocAsync(4 * n, self.main))
        p, i = ctypes.c_void_p, ctypes.c_int
        ok(driver.cuLaunchKernel(self.relax, (n + 255) // 256, 1, 1, 256, 1, 1, 0, int(self.main),
                                 ((self.x, self.y, residual, n), (p, p, p, i)), 0))
        ok(cudart.cudaEventRecord(self.done, self.main))
        ok(cudart.cudaStreamWaitEvent(self.side, self.done, 0))
        ok(driver.cuLaunchKernel(self.norm, 1, 1, 1, 256, 1, 1, 0, int(self.side),
                                 ((residual, int(self.norms) + 4 * k, n), (p, p, i)), 0))
        ok(cudart.cudaFreeAsync(residual, self.main))
        self.x, self.y = self.y, self.x

    def history(self, steps):
        ok(cudart.cudaStreamSynchronize(self.side))
        out = np.empty(steps, np.float32)
        ok(cudart.cudaMemcpy(out.ctypes.data, self.norms, out.nbytes,
                             cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost))
        return np.sqrt(out)


if __name__ == "__main__":
    STEPS = 300
    solver = Relaxation(1 << 22, STEPS)
    for k in range(STEPS):
        solver.step(k)
    print(solver.history(STEPS)[-1])
