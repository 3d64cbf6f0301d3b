"""Stream-ordered temporaries handed from a loader stream to a worker stream."""
from typing import List

import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = b"""
extern "C" __global__ void scale_sum(const float* x, float* acc, float w, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) acc[i] += w * x[i];
}
"""


def check(result):
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(f"call failed: {status}")
    return values[0] if len(values) == 1 else tuple(values)


def build(device) -> "driver.CUfunction":
    attr = driver.CUdevice_attribute
    major = check(driver.cuDeviceGetAttribute(attr.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = check(driver.cuDeviceGetAttribute(attr.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"scale_sum.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=compute_{major}{minor}".encode()]))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(program))
    check(nvrtc.nvrtcGetPTX(program, ptx))
    module = check(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
    return check(driver.cuModuleGetFunction(module, b"scale_sum"))


class Accumulator:
    def __init__(self, length: int):
        check(driver.cuInit(0))
        self.device = check(driver.cuDeviceGet(0))
        self.context = check(driver.cuDevicePrimaryCtxRetain(self.device))
        check(driver.cuCtxSetCurrent(self.context))
        self.function = build(self.device)
        flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.load = check(driver.cuStreamCreate(flag))
        self.work = check(driver.cuStreamCreate(flag))
        event_flag = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self.loaded = check(driver.cuEventCreate(event_flag))
        self.length = length
        self.acc = check(driver.cuMemAllocAsync(length * 4, self.work))
        check(driver.cuMemsetD32Async(self.acc, 0, length, self.work))

    def _launch(self, x, weight: float) -> None:
        packed = [np.array([int(x)], np.uint64), np.array([int(self.acc)], np.uint64),
                  np.array([weight], np.float32), np.array([self.length], np.int32)]
        args = np.array([a.ctypes.data for a in packed], np.uint64)
        blocks = (self.length + 255) // 256
        check(driver.cuLaunchKernel(self.function, blocks, 1, 1, 256, 1, 1, 0, self.work, args.ctypes.data, 0))

    def add(self, values: np.ndarray, weight: float) -> None:
        data = np.ascontiguousarray(values, np.float32)
        if data.shape != (self.length,):
            raise ValueError("bad length")
        x = check(driver.cuMemAllocAsync(self.length * 4, self.load))
        try:
            check(driver.cuMemcpyHtoDAsync(x, data.ctypes.data, data.nbytes, self.load))
            check(driver.cuEventRecord(self.loaded, self.load))
            check(driver.cuStreamWaitEvent(self.work, self.loaded, 0))
            self._launch(x, weight)
        finally:
            check(driver.cuStreamSynchronize(self.load))
            check(driver.cuMemFreeAsync(x, self.work))

    def value(self) -> np.ndarray:
        out = np.empty(self.length, np.float32)
        check(driver.cuMemcpyDtoHAsync(out.ctypes.data, self.acc, out.nbytes, self.work))
        check(driver.cuStreamSynchronize(self.work))
        return out

    def close(self) -> None:
        check(driver.cuMemFreeAsync(self.acc, self.work))
        check(driver.cuStreamSynchronize(self.work))
        check(driver.cuStreamDestroy(self.load))
        check(driver.cuStreamDestroy(self.work))
        check(driver.cuEventDestroy(self.loaded))
        check(driver.cuDevicePrimaryCtxRelease(self.device))


def weighted_total(rows: List[np.ndarray], weights: List[float]) -> np.ndarray:
    total = Accumulator(len(rows[0]))
    try:
        for row, weight in zip(rows, weights):
            total.add(row, weight)
        return total.value()
    finally:
        total.close()
