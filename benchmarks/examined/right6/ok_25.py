import ctypes

import numpy as np
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc

SRC = b"""
extern "C" __global__ void diffuse(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) b[i] = a[i] + 0.2f * (a[i - 1] - 2.f * a[i] + a[i + 1]);
}
"""


def ok(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


class Diffusion:
    """Steps on one stream while snapshots leave on another."""

    def __init__(self, n):
        ok(cu.cuInit(0))
        self.dev = ok(cu.cuDeviceGet(0))
        self.ctx = ok(cu.cuDevicePrimaryCtxRetain(self.dev))
        ok(cu.cuCtxSetCurrent(self.ctx))
        prog = ok(nvrtc.nvrtcCreateProgram(SRC, b"d.cu", 0, [], []))
        ok(nvrtc.nvrtcCompileProgram(prog, 0, []))
        ptx = b" " * ok(nvrtc.nvrtcGetPTXSize(prog))
        ok(nvrtc.nvrtcGetPTX(prog, ptx))
        self.module = ok(cu.cuModuleLoadData(ptx))
        self.kernel = ok(cu.cuModuleGetFunction(self.module, b"diffuse"))
        self.n, self.nbytes = n, 4 * n
        flags = cu.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.compute = ok(cu.cuStreamCreate(flags))
        self.io = ok(cu.cuStreamCreate(flags))
        self.buf = [ok(cu.cuMemAlloc(self.nbytes)) for _ in range(2)]
        self.host = ok(cu.cuMemAllocHost(self.nbytes))
        view = (ctypes.c_float * n).from_address(int(self.host))
        self.snapshot = np.frombuffer(view, np.float32)
        self.stepped = [ok(cu.cuEventCreate(2)) for _ in range(2)]
        self.copied = [ok(cu.cuEventCreate(2)) for _ in range(2)]
        self.t = 0

    def load(self, field):
        for b in self.buf:
            ok(cu.cuMemcpyHtoDAsync(b, field.ctypes.data, self.nbytes, self.compute))
        ok(cu.cuStreamSynchronize(self.compute))

    def step(self):
        src, dst = self.t % 2, (self.t + 1) % 2
        ok(cu.cuStreamWaitEvent(self.compute, self.copied[dst], 0))
        args = [np.array([int(self.buf[src])], np.uint64),
                np.array([int(self.buf[dst])], np.uint64), np.array([self.n], np.int32)]
        ptrs = np.array([a.ctypes.data for a in args], np.uint64)
        ok(cu.cuLaunchKernel(self.kernel, (self.n + 255) // 256, 1, 1, 256, 1, 1, 0,
                             self.compute, ptrs.ctypes.data, 0))
        ok(cu.cuEventRecord(self.stepped[dst], self.compute))
        self.t += 1

    def begin_snapshot(self):
        cur = self.t % 2
        ok(cu.cuStreamWaitEvent(self.io, self.stepped[cur], 0))
        ok(cu.cuMemcpyDtoHAsync(self.snapshot.ctypes.data, self.buf[cur], self.nbytes, self.io))
        ok(cu.cuEventRecord(self.copied[cur], self.io))
        return cur

    def end_snapshot(self, token):
        ok(cu.cuEventSynchronize(self.copied[token]))
        return self.snapshot.copy()


if __name__ == "__main__":
    field = np.zeros(1 << 16, np.float32)
    field[1 << 15] = 1.0
    sim = Diffusion(field.size)
    sim.load(field)
    for _ in range(10):
        sim.step()
        token = sim.begin_snapshot()
        sim.step()
        sim.step()
        print(float(sim.end_snapshot(token).max()))
