"""Applies an affine map to a long vector in chunks dealt round-robin to streams."""
from __future__ import annotations

import ctypes

import numpy as np
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc

SOURCE = b"""
extern "C" __global__ void affine(float* x, float a, float b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = a * x[i] + b;
}
"""


def check(result):
    err = result[0]
    if err not in (cu.CUresult.CUDA_SUCCESS, nvrtc.nvrtcResult.NVRTC_SUCCESS):
        raise RuntimeError(f"CUDA error: {err}")
    if len(result) == 1:
        return None
    return result[1] if len(result) == 2 else result[1:]


def compile_kernel(device):
    major = check(cu.cuDeviceGetAttribute(
        cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = check(cu.cuDeviceGetAttribute(
        cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"affine.cu", 0, [], []))
    option = f"--gpu-architecture=sm_{major}{minor}".encode()
    check(nvrtc.nvrtcCompileProgram(program, 1, [option]))
    size = check(nvrtc.nvrtcGetCUBINSize(program))
    cubin = b" " * size
    check(nvrtc.nvrtcGetCUBIN(program, cubin))
    module = check(cu.cuModuleLoadData(cubin))
    return module, check(cu.cuModuleGetFunction(module, b"affine"))


class Lane:
    def __init__(self, chunk: int) -> None:
        flag = cu.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.stream = check(cu.cuStreamCreate(flag))
        self.device = check(cu.cuMemAlloc(chunk * 4))
        self.pointer = int(check(cu.cuMemHostAlloc(chunk * 4, 0)))
        raw = (ctypes.c_float * chunk).from_address(self.pointer)
        self.host = np.frombuffer(raw, dtype=np.float32)
        self.target: np.ndarray | None = None

    def drain(self) -> None:
        check(cu.cuStreamSynchronize(self.stream))
        if self.target is not None:
            self.target[...] = self.host[: self.target.size]
            self.target = None

    def free(self) -> None:
        check(cu.cuStreamSynchronize(self.stream))
        self.host = None
        check(cu.cuMemFree(self.device))
        check(cu.cuMemFreeHost(self.pointer))
        check(cu.cuStreamDestroy(self.stream))


class AffineRunner:
    def __init__(self, chunk: int = 1 << 20, lanes: int = 3) -> None:
        check(cu.cuInit(0))
        self.dev = check(cu.cuDeviceGet(0))
        self.context = check(cu.cuDevicePrimaryCtxRetain(self.dev))
        check(cu.cuCtxSetCurrent(self.context))
        self.module, self.kernel = compile_kernel(self.dev)
        self.chunk = chunk
        self.lanes = [Lane(chunk) for _ in range(lanes)]

    def _issue(self, lane: Lane, piece: np.ndarray, target: np.ndarray, a: float, b: float) -> None:
        n = piece.size
        lane.host[:n] = piece
        check(cu.cuMemcpyHtoDAsync(lane.device, lane.pointer, n * 4, lane.stream))
        args = ((int(lane.device), a, b, n),
                (ctypes.c_void_p, ctypes.c_float, ctypes.c_float, ctypes.c_int))
        check(cu.cuLaunchKernel(
            self.kernel, -(-n // 256), 1, 1, 256, 1, 1, 0, lane.stream, args, 0))
        check(cu.cuMemcpyDtoHAsync(lane.pointer, lane.device, n * 4, lane.stream))
        lane.target = target

    def __call__(self, x: np.ndarray, a: float, b: float) -> np.ndarray:
        x = np.ascontiguousarray(x, dtype=np.float32)
        out = np.empty_like(x)
        for lane in self.lanes:
            lane.target = None
        for index, start in enumerate(range(0, x.size, self.chunk)):
            lane = self.lanes[index % len(self.lanes)]
            lane.drain()
            stop = min(start + self.chunk, x.size)
            self._issue(lane, x[start:stop], out[start:stop], a, b)
        for lane in self.lanes:
            lane.drain()
        return out

    def close(self) -> None:
        for lane in self.lanes:
            lane.free()
        check(cu.cuModuleUnload(self.module))
        check(cu.cuDevicePrimaryCtxRelease(self.dev))


if __name__ == "__main__":
    runner = AffineRunner()
    try:
        for size in (10, 1 << 20, 7_000_001):
            data = np.arange(size, dtype=np.float32)
            print(size, np.abs(runner(data, 2.0, 1.0) - (2 * data + 1)).max())
    finally:
        runner.close()
