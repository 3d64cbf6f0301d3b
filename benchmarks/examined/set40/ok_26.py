"""Chained row transforms with stream-ordered temporaries (cuda-python)."""
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc, runtime as cudart

SRC = rb"""
extern "C" __global__ void square(const float *x, float *t, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) t[i] = x[i] * x[i];
}
extern "C" __global__ void smooth(const float *t, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float a = t[max(i - 1, 0)], b = t[i], c = t[min(i + 1, n - 1)];
        y[i] = 0.25f * a + 0.5f * b + 0.25f * c;
    }
}
"""
VP, I32 = ctypes.c_void_p, ctypes.c_int


def check(ret):
    err, *rest = ret
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


def compile_kernels(*names):
    check(cudart.cudaFree(0))
    prog = check(nvrtc.nvrtcCreateProgram(SRC, b"k.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 0, []))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    mod = check(driver.cuModuleLoadData(ptx))
    return [check(driver.cuModuleGetFunction(mod, n)) for n in names]


class Pipeline:
    BLOCK = 256

    def __init__(self, n):
        self.n = n
        self.grid = (n + self.BLOCK - 1) // self.BLOCK
        self.square, self.smooth = compile_kernels(b"square", b"smooth")
        flag = cudart.cudaStreamNonBlocking
        self.front = check(cudart.cudaStreamCreateWithFlags(flag))
        self.back = check(cudart.cudaStreamCreateWithFlags(flag))
        self.ready = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.x = check(cudart.cudaMalloc(4 * n))
        self.y = check(cudart.cudaMalloc(4 * n))

    def _launch(self, fn, stream, args):
        types = tuple(I32 if i == len(args) - 1 else VP for i in range(len(args)))
        values = tuple(int(a) for a in args)
        check(driver.cuLaunchKernel(fn, self.grid, 1, 1, self.BLOCK, 1, 1, 0, stream, (values, types), 0))

    def load(self, host):
        kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        check(cudart.cudaMemcpy(self.x, host.ctypes.data, host.nbytes, kind))
        check(cudart.cudaDeviceSynchronize())

    def step(self):
        tmp = check(cudart.cudaMallocAsync(4 * self.n, self.front))
        self._launch(self.square, self.front, (self.x, tmp, self.n))
        check(cudart.cudaEventRecord(self.ready, self.front))
        check(cudart.cudaStreamWaitEvent(self.back, self.ready, 0))
        self._launch(self.smooth, self.back, (tmp, self.y, self.n))
        check(cudart.cudaFreeAsync(tmp, self.back))

    def result(self):
        check(cudart.cudaStreamSynchronize(self.back))
        out = np.empty(self.n, dtype=np.float32)
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        check(cudart.cudaMemcpy(out.ctypes.data, self.y, out.nbytes, kind))
        return out


def main(n=1 << 22, steps=50):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n).astype(np.float32)
    pipe = Pipeline(n)
    pipe.load(x)
    for _ in range(steps):
        pipe.step()
    got = pipe.result()
    print("mean", float(got.mean()), "expected about", float((x * x).mean()))


if __name__ == "__main__":
    main()
