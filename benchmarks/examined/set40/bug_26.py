"""Box blur of signal batches with stream-ordered scratch memory (cuda-python)."""
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc, runtime as cudart

SRC = rb"""
extern "C" __global__
void prefix(const float *x, double *scratch, int n)
{
    if (threadIdx.x == 0) {
        double s = 0.0;
        const float *row = x + (size_t)blockIdx.x * n;
        double *out = scratch + (size_t)blockIdx.x * (n + 1);
        out[0] = 0.0;
        for (int i = 0; i < n; ++i) { s += row[i]; out[i + 1] = s; }
    }
}
extern "C" __global__
void box(const double *scratch, float *y, int n, int r)
{
    const double *p = scratch + (size_t)blockIdx.x * (n + 1);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int a = max(i - r, 0), b = min(i + r + 1, n);
        y[(size_t)blockIdx.x * n + i] = (float)((p[b] - p[a]) / (b - a));
    }
}
"""


def check(ret):
    err, *rest = ret
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


def build():
    check(cudart.cudaFree(0))
    prog = check(nvrtc.nvrtcCreateProgram(SRC, b"blur.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 0, []))
    size = check(nvrtc.nvrtcGetPTXSize(prog))
    ptx = b" " * size
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    mod = check(driver.cuModuleLoadData(ptx))
    return (check(driver.cuModuleGetFunction(mod, b"prefix")),
            check(driver.cuModuleGetFunction(mod, b"box")))


def launch(fn, grid, block, stream, values, types):
    check(driver.cuLaunchKernel(fn, grid, 1, 1, block, 1, 1, 0, stream, (values, types), 0))


class Scratch:
    """Hands out device scratch from the default memory pool."""

    def take(self, nbytes):
        ptr = check(cudart.cudaMallocAsync(nbytes, 0))
        check(cudart.cudaMemsetAsync(ptr, 0, nbytes, 0))
        check(cudart.cudaStreamSynchronize(0))
        return ptr

    def give(self, ptr):
        check(cudart.cudaFreeAsync(ptr, 0))


class BoxBlur:
    def __init__(self, rows, n, radius):
        self.rows, self.n, self.radius = rows, n, radius
        self.prefix, self.box = build()
        self.scratch = Scratch()
        self.streams = [check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
                        for _ in range(2)]
        nbytes = 4 * rows * n
        self.x = [check(cudart.cudaMalloc(nbytes)) for _ in range(2)]
        self.y = [check(cudart.cudaMalloc(nbytes)) for _ in range(2)]
        self.nbytes = nbytes

    def load(self, k, host):
        kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        check(cudart.cudaMemcpy(self.x[k], host.ctypes.data, self.nbytes, kind))
        check(cudart.cudaDeviceSynchronize())

    def run(self, k):
        stream = self.streams[k]
        tmp = self.scratch.take(8 * self.rows * (self.n + 1))
        vp, i32 = ctypes.c_void_p, ctypes.c_int
        launch(self.prefix, self.rows, 32, stream,
               (int(self.x[k]), int(tmp), self.n), (vp, vp, i32))
        launch(self.box, self.rows, 256, stream,
               (int(tmp), int(self.y[k]), self.n, self.radius), (vp, vp, i32, i32))
        self.scratch.give(tmp)

    def fetch(self, k):
        out = np.empty((self.rows, self.n), dtype=np.float32)
        check(cudart.cudaStreamSynchronize(self.streams[k]))
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        check(cudart.cudaMemcpy(out.ctypes.data, self.y[k], self.nbytes, kind))
        return out


def main(rows=512, n=16384):
    rng = np.random.default_rng(2)
    blur = BoxBlur(rows, n, radius=25)
    for k in range(2):
        blur.load(k, rng.standard_normal((rows, n)).astype(np.float32))
    for _ in range(10):
        for k in range(2):
            blur.run(k)
    print([float(blur.fetch(k).std()) for k in range(2)])


if __name__ == "__main__":
    main()
