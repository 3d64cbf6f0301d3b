"""Captured upload/filter/download chains that are launched again and again (driver API)."""
import ctypes

import numpy as np
from cuda import cuda, nvrtc

CODE = b"""
extern "C" __global__ void fir(const float *x, const float *taps, float *y, int n, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = 0.f;
    for (int j = 0; j < k && j <= i; ++j) a += taps[j] * x[i - j];
    y[i] = a;
}
extern "C" __global__ void envelope(const float *x, float *e, int n, int w) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b * w >= n) return;
    float m = 0.f;
    for (int j = b * w; j < n && j < (b + 1) * w; ++j) m = fmaxf(m, fabsf(x[j]));
    e[b] = m;
}
"""
N, K, W = 1 << 16, 31, 64


def ck(ret):
    if int(ret[0]) != 0:
        raise RuntimeError(str(ret[0]))
    return ret[1] if len(ret) == 2 else ret[1:]


def load(device):
    prog = ck(nvrtc.nvrtcCreateProgram(CODE, b"fir.cu", 0, [], []))
    major = ck(cuda.cuDeviceGetAttribute(
        cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    ck(nvrtc.nvrtcCompileProgram(prog, 1, [b"--gpu-architecture=compute_%d0" % major]))
    ptx = b" " * ck(nvrtc.nvrtcGetPTXSize(prog))
    ck(nvrtc.nvrtcGetPTX(prog, ptx))
    mod = ck(cuda.cuModuleLoadData(np.char.array(ptx).ctypes.data))
    return {n: ck(cuda.cuModuleGetFunction(mod, n.encode())) for n in ("fir", "envelope")}


def page_locked(count):
    addr = ck(cuda.cuMemAllocHost(4 * count))
    return addr, np.ctypeslib.as_array((ctypes.c_float * count).from_address(int(addr)))


class Chain:
    def __init__(self, fns, taps):
        self.fns, self.taps = fns, taps
        self.h_x, self.x = page_locked(N)
        self.h_y, self.y = page_locked(N)
        self.h_e, self.e = page_locked(N // W)
        self.d_x, self.d_y = ck(cuda.cuMemAlloc(4 * N)), ck(cuda.cuMemAlloc(4 * N))
        self.d_e = ck(cuda.cuMemAlloc(4 * N // W))
        nb = cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.main, self.side = ck(cuda.cuStreamCreate(nb)), ck(cuda.cuStreamCreate(nb))
        quiet = cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self.fork, self.join, self.done = (ck(cuda.cuEventCreate(quiet)) for _ in range(3))
        self.exec = self._record()
        self.job = None

    def _run(self, name, stream, grid, values, types):
        ck(cuda.cuLaunchKernel(self.fns[name], grid, 1, 1, 128, 1, 1, 0, stream, (values, types), 0))

    def _record(self):
        p, i = ctypes.c_void_p, ctypes.c_int
        mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        ck(cuda.cuStreamBeginCapture(self.main, mode))
        ck(cuda.cuMemcpyHtoDAsync(self.d_x, self.h_x, 4 * N, self.main))
        ck(cuda.cuEventRecord(self.fork, self.main))
        ck(cuda.cuStreamWaitEvent(self.side, self.fork, 0))
        self._run("envelope", self.side, N // W // 128, (self.d_x, self.d_e, N, W), (p, p, i, i))
        ck(cuda.cuMemcpyDtoHAsync(self.h_e, self.d_e, 4 * N // W, self.side))
        self._run("fir", self.main, N // 128, (self.d_x, self.taps, self.d_y, N, K), (p, p, p, i, i))
        ck(cuda.cuMemcpyDtoHAsync(self.h_y, self.d_y, 4 * N, self.main))
        ck(cuda.cuEventRecord(self.join, self.side))
        ck(cuda.cuStreamWaitEvent(self.main, self.join, 0))
        graph = ck(cuda.cuStreamEndCapture(self.main))
        return ck(cuda.cuGraphInstantiate(graph, 0))

    def take(self, sink):
        if self.job is not None:
            ck(cuda.cuEventSynchronize(self.done))
            sink[self.job] = (float(self.e.max()), float(np.square(self.y).mean()))
            self.job = None

    def start(self, job, signal):
        self.x[:] = signal
        ck(cuda.cuGraphLaunch(self.exec, self.main))
        ck(cuda.cuEventRecord(self.done, self.main))
        self.job = job


def main(jobs=200, chains=3):
    ck(cuda.cuInit(0))
    device = ck(cuda.cuDeviceGet(0))
    ck(cuda.cuCtxSetCurrent(ck(cuda.cuDevicePrimaryCtxRetain(device))))
    weights = np.hanning(K).astype(np.float32)
    taps = ck(cuda.cuMemAlloc(weights.nbytes))
    ck(cuda.cuMemcpyHtoD(taps, weights.ctypes.data, weights.nbytes))
    ck(cuda.cuCtxSynchronize())
    fns = load(device)
    ring = [Chain(fns, taps) for _ in range(chains)]
    rng, sink = np.random.default_rng(0), {}
    for job in range(jobs):
        chain = ring[job % chains]
        chain.take(sink)
        chain.start(job, rng.standard_normal(N, dtype=np.float32))
    for chain in ring:
        chain.take(sink)
    print(len(sink), max(e for e, _ in sink.values()))


if __name__ == "__main__":
    main()
