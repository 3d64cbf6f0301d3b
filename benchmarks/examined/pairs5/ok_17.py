"""Stream-ordered scratch for a spectral filter: allocated on the IO stream, used on the math stream."""
import ctypes
import numpy as np
from cuda.bindings import driver, nvrtc, runtime as rt

SRC = rb'''
extern "C" __global__ void window(float* x, int n, float k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 0.5f - 0.5f * cosf(k * i);
}
'''


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(err)
    return rest[0] if rest else None


def build(name):
    prog = check(nvrtc.nvrtcCreateProgram(SRC, b"w.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 0, []))
    size = check(nvrtc.nvrtcGetPTXSize(prog))
    ptx = b" " * size
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    return check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(ptx)), name))


class Windower:
    def __init__(self, n):
        check(rt.cudaSetDevice(0))
        check(rt.cudaFree(0))
        self.n, self.nbytes = n, 4 * n
        self.io = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.math = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.loaded = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.done = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.kernel = build(b"window")
        self.k = 2 * np.pi / n

    def __call__(self, host_in, host_out):
        h2d, d2h = rt.cudaMemcpyKind.cudaMemcpyHostToDevice, rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
        buf = check(rt.cudaMallocAsync(self.nbytes, self.io))
        check(rt.cudaMemcpyAsync(buf, host_in, self.nbytes, h2d, self.io))
        check(rt.cudaEventRecord(self.loaded, self.io))
        check(rt.cudaStreamWaitEvent(self.math, self.loaded, 0))
        args = ((int(buf), self.n, self.k), (np.uintp, np.int32, np.float32))
        packed = [np.array([v], t) for v, t in zip(*args)]
        ptrs = np.array([a.ctypes.data for a in packed], np.uint64)
        check(driver.cuLaunchKernel(self.kernel, (self.n + 255) // 256, 1, 1, 256, 1, 1, 0,
                                    int(self.math), ptrs.ctypes.data, 0))
        check(rt.cudaMemcpyAsync(host_out, buf, self.nbytes, d2h, self.math))
        check(rt.cudaEventRecord(self.done, self.math))
        check(rt.cudaStreamWaitEvent(self.io, self.done, 0))
        check(rt.cudaFreeAsync(buf, self.io))

    def finish(self):
        check(rt.cudaStreamSynchronize(self.io))


def main(n=1 << 20, blocks=16):
    w = Windower(n)
    src = check(rt.cudaMallocHost(4 * n * blocks))
    dst = check(rt.cudaMallocHost(4 * n * blocks))
    view = np.ctypeslib.as_array((ctypes.c_float * (n * blocks)).from_address(int(dst)))
    np.ctypeslib.as_array((ctypes.c_float * (n * blocks)).from_address(int(src)))[:] = 1.0
    for b in range(blocks):
        w(int(src) + 4 * n * b, int(dst) + 4 * n * b)
    w.finish()
    print(view.mean())


if __name__ == "__main__":
    main()
