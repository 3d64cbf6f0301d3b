"""Histogram of byte blocks with an NVRTC kernel and the driver API."""
from __future__ import annotations

import ctypes

import numpy as np
from cuda.bindings import driver as drv
from cuda.bindings import nvrtc

_CODE = b"""
extern "C" __global__
void count(const unsigned char* data, unsigned int n, unsigned int* bins) {
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[data[i]], 1u);
}
"""


def ok(result):
    if int(result[0]) != 0:
        raise RuntimeError(f"call failed: {result[0]}")
    return result[1] if len(result) == 2 else result[1:]


def compile_kernel(device):
    major = ok(drv.cuDeviceGetAttribute(drv.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = ok(drv.cuDeviceGetAttribute(drv.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    program = ok(nvrtc.nvrtcCreateProgram(_CODE, b"count.cu", 0, [], []))
    ok(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=sm_{major}{minor}".encode()]))
    size = ok(nvrtc.nvrtcGetCUBINSize(program))
    image = b" " * size
    ok(nvrtc.nvrtcGetCUBIN(program, image))
    module = ok(drv.cuModuleLoadData(np.char.array(image).ctypes.data))
    return ok(drv.cuModuleGetFunction(module, b"count"))


class ByteHistogram:
    """Counts of byte values over everything added since the last reset."""

    def __init__(self, block: int, kernel):
        self.block, self._kernel = block, kernel
        flags = drv.CUstream_flags.CU_STREAM_NON_BLOCKING.value
        self._copy = ok(drv.cuStreamCreate(flags))
        self._work = ok(drv.cuStreamCreate(flags))
        self._bins = ok(drv.cuMemAlloc(4 * 256))
        ok(drv.cuMemsetD32Async(self._bins, 0, 256, self._work))
        timing = drv.CUevent_flags.CU_EVENT_DISABLE_TIMING.value
        self._host, self._dev, self._ready, self._used = [], [], [], []
        for _ in range(2):
            self._host.append(int(ok(drv.cuMemAllocHost(block))))
            self._dev.append(ok(drv.cuMemAlloc(block)))
            self._ready.append(ok(drv.cuEventCreate(timing)))
            self._used.append(ok(drv.cuEventCreate(timing)))
        self._turn = 0

    def add(self, data: bytes) -> None:
        for start in range(0, len(data), self.block):
            self._add_block(data[start : start + self.block])

    def _add_block(self, piece: bytes) -> None:
        i, self._turn = self._turn, self._turn ^ 1
        ok(drv.cuEventSynchronize(self._ready[i]))
        ctypes.memmove(self._host[i], piece, len(piece))
        ok(drv.cuStreamWaitEvent(self._copy, self._used[i], 0))
        ok(drv.cuMemcpyHtoDAsync(self._dev[i], self._host[i], len(piece), self._copy))
        ok(drv.cuEventRecord(self._ready[i], self._copy))
        ok(drv.cuStreamWaitEvent(self._work, self._ready[i], 0))
        values = (int(self._dev[i]), len(piece), int(self._bins))
        types = (ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p)
        ok(drv.cuLaunchKernel(self._kernel, 64, 1, 1, 256, 1, 1, 0, self._work, (values, types), 0))
        ok(drv.cuEventRecord(self._used[i], self._work))

    def result(self) -> np.ndarray:
        out = np.zeros(256, dtype=np.uint32)
        ok(drv.cuStreamSynchronize(self._work))
        ok(drv.cuMemcpyDtoH(out.ctypes.data, self._bins, out.nbytes))
        return out

    def reset(self) -> None:
        ok(drv.cuMemsetD32Async(self._bins, 0, 256, self._work))

    def close(self) -> None:
        ok(drv.cuCtxSynchronize())
        for ptr in (*self._dev, self._bins):
            ok(drv.cuMemFree(ptr))
        for host in self._host:
            ok(drv.cuMemFreeHost(host))


def main() -> None:
    ok(drv.cuInit(0))
    device = ok(drv.cuDeviceGet(0))
    context = ok(drv.cuDevicePrimaryCtxRetain(device))
    ok(drv.cuCtxSetCurrent(context))
    histogram = ByteHistogram(1 << 16, compile_kernel(device))
    rng = np.random.default_rng(0)
    for size in (1_000_000, 10, 200_000):
        data = rng.integers(0, 256, size=size, dtype=np.uint8)
        histogram.add(data.tobytes())
        print(size, bool((histogram.result() == np.bincount(data, minlength=256)).all()))
        histogram.reset()
    histogram.close()
    ok(drv.cuDevicePrimaryCtxRelease(device))


if __name__ == "__main__":
    main()
