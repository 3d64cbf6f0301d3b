"""A copy/scale/copy cycle captured once with cuda-python and launched many times."""
import ctypes

import numpy as np
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc
from cuda.bindings import runtime as rt

SRC = b"""
extern "C" __global__ void blend(const float* a, float* b, float w, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = w * a[i] + (1.f - w) * b[i];
}
"""


def ok(ret):
    if int(ret[0]) != 0:
        raise RuntimeError(ret[0])
    return ret[1] if len(ret) == 2 else ret[1:]


def kernel(name: bytes):
    major = ok(rt.cudaDeviceGetAttribute(rt.cudaDeviceAttr.cudaDevAttrComputeCapabilityMajor, 0))
    minor = ok(rt.cudaDeviceGetAttribute(rt.cudaDeviceAttr.cudaDevAttrComputeCapabilityMinor, 0))
    prog = ok(nvrtc.nvrtcCreateProgram(SRC, b"blend.cu", 0, [], []))
    ok(nvrtc.nvrtcCompileProgram(prog, 1, [f"--gpu-architecture=sm_{major}{minor}".encode()]))
    size = ok(nvrtc.nvrtcGetCUBINSize(prog))
    image = b" " * size
    ok(nvrtc.nvrtcGetCUBIN(prog, image))
    return ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(image)), name))


class Blender:
    def __init__(self, n: int, w: float):
        self.n, self.nbytes = n, 4 * n
        ok(rt.cudaFree(0))
        self.fn = kernel(b"blend")
        self.stream = ok(rt.cudaStreamCreate())
        self.pin = ok(rt.cudaMallocHost(2 * self.nbytes))
        raw = (ctypes.c_float * (2 * n)).from_address(self.pin)
        self.inp, self.out = np.frombuffer(raw, np.float32).reshape(2, n)
        self.a = ok(rt.cudaMalloc(self.nbytes))
        self.b = ok(rt.cudaMalloc(self.nbytes))
        ok(rt.cudaMemset(self.b, 0, self.nbytes))
        ok(rt.cudaDeviceSynchronize())
        self.graph = self._capture(w)

    def _capture(self, w):
        kinds = rt.cudaMemcpyKind
        mode = rt.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        ok(rt.cudaStreamBeginCapture(self.stream, mode))
        ok(rt.cudaMemcpyAsync(self.a, self.pin, self.nbytes, kinds.cudaMemcpyHostToDevice, self.stream))
        args = ((self.a, self.b, w, self.n), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_int))
        ok(cu.cuLaunchKernel(self.fn, (self.n + 255) // 256, 1, 1, 256, 1, 1, 0, self.stream, args, 0))
        ok(rt.cudaMemcpyAsync(self.pin + self.nbytes, self.b, self.nbytes, kinds.cudaMemcpyDeviceToHost, self.stream))
        graph = ok(rt.cudaStreamEndCapture(self.stream))
        return ok(rt.cudaGraphInstantiate(graph, 0))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.inp[:] = x
        ok(rt.cudaGraphLaunch(self.graph, self.stream))
        ok(rt.cudaStreamSynchronize(self.stream))
        return self.out.copy()


if __name__ == "__main__":
    blend = Blender(1 << 16, 0.25)
    for k in range(10):
        y = blend(np.full(1 << 16, float(k), np.float32))
    print(y[:3])
