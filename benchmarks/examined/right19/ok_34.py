"""Stream-ordered scratch that is made on one stream and given back on another (cuda-python)."""
import ctypes

import numpy as np
from cuda import cuda, cudart, nvrtc

CODE = b"""
extern "C" __global__ void noise(float *x, int n, unsigned seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned s = seed * 747796405u + i * 2891336453u + 1u;
    s ^= s >> 17; s *= 0xed5ad4bbu; s ^= s >> 11;
    x[i] = (s & 0xffffff) / 16777216.0f;
}
extern "C" __global__ void band_sums(const float *x, int n, float *out, int bands) {
    int b = threadIdx.x;
    if (b >= bands) return;
    float acc = 0.f;
    for (int i = b; i < n; i += bands) acc += x[i];
    out[b] = acc;
}
"""


def ok(ret):
    err, *rest = ret
    if int(err) != 0:
        raise RuntimeError(f"{type(err).__name__}: {err}")
    return rest[0] if len(rest) == 1 else rest


def build(names):
    prog = ok(nvrtc.nvrtcCreateProgram(CODE, b"bands.cu", 0, [], []))
    ok(nvrtc.nvrtcCompileProgram(prog, 1, [b"--gpu-architecture=compute_80"]))
    ptx = b" " * ok(nvrtc.nvrtcGetPTXSize(prog))
    ok(nvrtc.nvrtcGetPTX(prog, ptx))
    module = ok(cuda.cuModuleLoadData(np.char.array(ptx).ctypes.data))
    return [ok(cuda.cuModuleGetFunction(module, n)) for n in names]


def launch(fn, grid, block, stream, *args):
    values, types = zip(*args)
    ok(cuda.cuLaunchKernel(fn, grid, 1, 1, block, 1, 1, 0, int(stream), (values, types), 0))


class Report:
    def __init__(self, bands):
        nbytes = 4 * bands
        self.host = ok(cudart.cudaHostAlloc(nbytes, cudart.cudaHostAllocMapped))
        self.device = ok(cudart.cudaHostGetDevicePointer(self.host, 0))
        self.view = np.ctypeslib.as_array((ctypes.c_float * bands).from_address(int(self.host)))
        self.made = ok(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.done = ok(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.seed = None


class BandMeter:
    def __init__(self, n, bands, reports=4):
        ok(cudart.cudaSetDevice(0))
        ok(cudart.cudaFree(0))
        self.n, self.bands = n, bands
        self.noise, self.sums = build([b"noise", b"band_sums"])
        flag = cudart.cudaStreamNonBlocking
        self.maker = ok(cudart.cudaStreamCreateWithFlags(flag))
        self.meter = ok(cudart.cudaStreamCreateWithFlags(flag))
        self.reports = [Report(bands) for _ in range(reports)]
        self.results = {}

    def take(self, report):
        if report.seed is not None:
            ok(cudart.cudaEventSynchronize(report.done))
            self.results[report.seed] = report.view.copy()
            report.seed = None

    def measure(self, seed):
        report = self.reports[seed % len(self.reports)]
        self.take(report)
        scratch = ok(cudart.cudaMallocAsync(4 * self.n, self.maker))
        ptr, i32 = ctypes.c_void_p, ctypes.c_int
        launch(self.noise, (self.n + 255) // 256, 256, self.maker,
               (scratch, ptr), (self.n, i32), (seed, ctypes.c_uint))
        ok(cudart.cudaEventRecord(report.made, self.maker))
        ok(cudart.cudaStreamWaitEvent(self.meter, report.made, 0))
        launch(self.sums, 1, self.bands, self.meter,
               (scratch, ptr), (self.n, i32), (report.device, ptr), (self.bands, i32))
        ok(cudart.cudaFreeAsync(scratch, self.meter))
        ok(cudart.cudaEventRecord(report.done, self.meter))
        report.seed = seed

    def close(self):
        for report in self.reports:
            self.take(report)
            ok(cudart.cudaFreeHost(report.host))
        for stream in (self.maker, self.meter):
            ok(cudart.cudaStreamDestroy(stream))
        return self.results


if __name__ == "__main__":
    meter = BandMeter(1 << 18, 64)
    for s in range(200):
        meter.measure(s)
    sums = meter.close()
    print(len(sums), np.mean([v.sum() for v in sums.values()]))
