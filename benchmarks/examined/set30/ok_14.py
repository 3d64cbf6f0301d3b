"""Correlation engine on cuda-python: a captured fork-join with page-locked ends."""
import ctypes
import threading

import numpy as np
from cuda.bindings import driver, nvrtc, runtime as cudart

SRC = rb"""
extern "C" __global__ void scale(float* out, const float* a, float s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] * s;
}
extern "C" __global__ void lagged(float* out, const float* a, const float* b, int lag, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i + lag < n ? a[i] * b[i + lag] : 0.0f;
}
"""
H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(result):
    err, *values = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return values[0] if len(values) == 1 else values


class Engine:
    def __init__(self, n, lag):
        check(cudart.cudaFree(0))
        prog = check(nvrtc.nvrtcCreateProgram(SRC, b"corr.cu", 0, [], []))
        check(nvrtc.nvrtcCompileProgram(prog, 0, []))
        ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
        check(nvrtc.nvrtcGetPTX(prog, ptx))
        self.module = check(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
        self.scale = check(driver.cuModuleGetFunction(self.module, b"scale"))
        self.lagged = check(driver.cuModuleGetFunction(self.module, b"lagged"))
        self.n, self.lag, self.nbytes = n, lag, 4 * n
        make = lambda: check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.main, self.side = make(), make()
        self.fork, self.join = (check(cudart.cudaEventCreate()) for _ in range(2))
        self.host = [check(cudart.cudaMallocHost(self.nbytes)) for _ in range(3)]
        self.dev = [check(cudart.cudaMalloc(self.nbytes)) for _ in range(5)]
        self.lock = threading.Lock()
        self.exec = self._capture()

    def _launch(self, fn, stream, values, types):
        grid = ((self.n + 255) // 256, 1, 1)
        check(driver.cuLaunchKernel(fn, *grid, 256, 1, 1, 0, int(stream), (values, types), 0))

    def _capture(self):
        p, f, i = ctypes.c_void_p, ctypes.c_float, ctypes.c_int
        a, b, sa, sb, out = self.dev
        mode = cudart.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        check(cudart.cudaStreamBeginCapture(self.main, mode))
        check(cudart.cudaEventRecord(self.fork, self.main))
        check(cudart.cudaStreamWaitEvent(self.side, self.fork, 0))
        check(cudart.cudaMemcpyAsync(a, self.host[0], self.nbytes, H2D, self.main))
        self._launch(self.scale, self.main, (sa, a, 0.5, self.n), (p, p, f, i))
        check(cudart.cudaMemcpyAsync(b, self.host[1], self.nbytes, H2D, self.side))
        self._launch(self.scale, self.side, (sb, b, 2.0, self.n), (p, p, f, i))
        check(cudart.cudaEventRecord(self.join, self.side))
        check(cudart.cudaStreamWaitEvent(self.main, self.join, 0))
        self._launch(self.lagged, self.main, (out, sa, sb, self.lag, self.n), (p, p, p, i, i))
        check(cudart.cudaMemcpyAsync(self.host[2], out, self.nbytes, D2H, self.main))
        graph = check(cudart.cudaStreamEndCapture(self.main))
        return check(cudart.cudaGraphInstantiate(graph, 0))

    def __call__(self, left, right):
        with self.lock:
            for ptr, row in zip(self.host, (left, right)):
                ctypes.memmove(int(ptr), row.ctypes.data, self.nbytes)
            check(cudart.cudaGraphLaunch(self.exec, self.main))
            check(cudart.cudaStreamSynchronize(self.main))
            view = (ctypes.c_float * self.n).from_address(int(self.host[2]))
            return np.ctypeslib.as_array(view).copy()


def main(pairs=32, n=1 << 20, lag=17):
    rng = np.random.default_rng(0)
    engine = Engine(n, lag)
    rows = rng.normal(size=(2, n)).astype(np.float32)
    return [float(engine(rows[0], rows[1]).sum()) for _ in range(pairs)]


if __name__ == "__main__":
    print(main()[:2])
