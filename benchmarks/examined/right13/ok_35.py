"""Stream-ordered allocation: blocks are born on the load stream and freed on the compute stream."""
import ctypes
from collections import deque

import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = rb"""
extern "C" __global__ void tone(float* x, float gain, float gamma, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = powf(fminf(fmaxf(x[i] * gain, 0.f), 1.f), gamma);
}
"""


def check(result):
    status, rest = result[0], result[1:]
    if int(status) != 0:
        raise RuntimeError(f"CUDA call failed: {status}")
    return rest[0] if len(rest) == 1 else rest


def compile_kernel(name):
    prog = check(nvrtc.nvrtcCreateProgram(SOURCE, b"tone.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 0, []))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    module = check(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
    return module, check(driver.cuModuleGetFunction(module, name))


class ToneMapper:
    def __init__(self, capacity, slots=3):
        check(driver.cuInit(0))
        self.dev = check(driver.cuDeviceGet(0))
        self.ctx = check(driver.cuDevicePrimaryCtxRetain(self.dev))
        check(driver.cuCtxSetCurrent(self.ctx))
        self.module, self.kernel = compile_kernel(b"tone")
        flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.load = check(driver.cuStreamCreate(flag))
        self.compute = check(driver.cuStreamCreate(flag))
        self.capacity = capacity
        self.idle, self.flying = deque(range(slots)), deque()
        self.hosts = []
        for _ in range(slots):
            ptr = check(driver.cuMemHostAlloc(capacity * 4, 0))
            view = np.frombuffer((ctypes.c_float * capacity).from_address(int(ptr)), np.float32)
            self.hosts.append((ptr, view))

    def _event(self, stream):
        event = check(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        check(driver.cuEventRecord(event, stream))
        return event

    def _collect(self):
        slot, count, done = self.flying.popleft()
        check(driver.cuEventSynchronize(done))
        check(driver.cuEventDestroy(done))
        out = self.hosts[slot][1][:count].copy()
        self.idle.append(slot)
        return out

    def _issue(self, image, gain, gamma):
        slot, n = self.idle.popleft(), image.size
        ptr, view = self.hosts[slot]
        view[:n] = image.ravel()
        block = check(driver.cuMemAllocAsync(n * 4, self.load))
        check(driver.cuMemcpyHtoDAsync(block, ptr, n * 4, self.load))
        loaded = self._event(self.load)
        check(driver.cuStreamWaitEvent(self.compute, loaded, 0))
        check(driver.cuEventDestroy(loaded))
        args = ((block, gain, gamma, n), (None, ctypes.c_float, ctypes.c_float, ctypes.c_int))
        check(driver.cuLaunchKernel(self.kernel, (n + 255) // 256, 1, 1, 256, 1, 1, 0,
                                    self.compute, args, 0))
        check(driver.cuMemcpyDtoHAsync(ptr, block, n * 4, self.compute))
        done = self._event(self.compute)
        check(driver.cuMemFreeAsync(block, self.compute))
        self.flying.append((slot, n, done))

    def map(self, images, gain=1.5, gamma=0.45):
        for image in images:
            if not 0 < image.size <= self.capacity:
                raise ValueError("image does not fit")
        flat = []
        for image in images:
            if not self.idle:
                flat.append(self._collect())
            self._issue(image, gain, gamma)
        while self.flying:
            flat.append(self._collect())
        return [f.reshape(image.shape) for f, image in zip(flat, images)]


if __name__ == "__main__":
    mapper = ToneMapper(1 << 20)
    frames = [np.random.rand(480, 640).astype(np.float32) for _ in range(10)]
    print([float(f.mean()) for f in mapper.map(frames)][:3])
