"""Ping-pong simulation with snapshots taken beside it (driver API and NVRTC)."""
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = rb"""
extern "C" __global__ void relax(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = 0.5f * a[i] + 0.25f * (a[(i + 1) % n] + a[(i + n - 1) % n]);
}
"""


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else tuple(rest)


def compile_kernel(device):
    attr = driver.CUdevice_attribute
    major = check(driver.cuDeviceGetAttribute(
        attr.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = check(driver.cuDeviceGetAttribute(
        attr.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"relax.cu", 0, [], []))
    option = f"--gpu-architecture=compute_{major}{minor}".encode()
    check(nvrtc.nvrtcCompileProgram(program, 1, [option]))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(program))
    check(nvrtc.nvrtcGetPTX(program, ptx))
    module = check(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
    return module, check(driver.cuModuleGetFunction(module, b"relax"))


class Relaxation:
    def __init__(self, device, start):
        self.n = len(start)
        self.nbytes = 4 * self.n
        self.module, self.kernel = compile_kernel(device)
        self.compute = check(driver.cuStreamCreate(1))
        self.copies = check(driver.cuStreamCreate(1))
        self.buffers = [check(driver.cuMemAlloc(self.nbytes)) for _ in range(2)]
        self.stepped = check(driver.cuEventCreate(2))
        self.saved = [check(driver.cuEventCreate(2)) for _ in range(2)]
        self.host = int(check(driver.cuMemAllocHost(self.nbytes)))
        self.view = np.ctypeslib.as_array((ctypes.c_float * self.n).from_address(self.host))
        self.now = 0
        first = np.ascontiguousarray(start, dtype=np.float32)
        check(driver.cuMemcpyHtoDAsync(self.buffers[0], first.ctypes.data, self.nbytes,
                                       self.compute))
        check(driver.cuStreamSynchronize(self.compute))

    def step(self):
        after = 1 - self.now
        check(driver.cuStreamWaitEvent(self.compute, self.saved[after], 0))
        args = ((int(self.buffers[self.now]), int(self.buffers[after]), self.n),
                (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
        check(driver.cuLaunchKernel(self.kernel, (self.n + 255) // 256, 1, 1, 256, 1, 1,
                                    0, self.compute, args, 0))
        self.now = after

    def snapshot(self):
        check(driver.cuEventRecord(self.stepped, self.compute))
        check(driver.cuStreamWaitEvent(self.copies, self.stepped, 0))
        check(driver.cuMemcpyDtoHAsync(self.host, self.buffers[self.now], self.nbytes,
                                       self.copies))
        check(driver.cuEventRecord(self.saved[self.now], self.copies))

    def latest(self):
        check(driver.cuStreamSynchronize(self.copies))
        return self.view.copy()

    def close(self):
        check(driver.cuStreamSynchronize(self.compute))
        check(driver.cuStreamSynchronize(self.copies))
        self.view = None
        for buffer in self.buffers:
            check(driver.cuMemFree(buffer))
        check(driver.cuMemFreeHost(self.host))
        check(driver.cuModuleUnload(self.module))


def main():
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    context = check(driver.cuDevicePrimaryCtxRetain(device))
    check(driver.cuCtxSetCurrent(context))
    start = np.zeros(4096, dtype=np.float32)
    start[2048] = 1.0
    relaxation = Relaxation(device, start)
    try:
        for i in range(64):
            relaxation.step()
            if i % 8 == 0:
                relaxation.snapshot()
        print(relaxation.latest().max())
    finally:
        relaxation.close()
        check(driver.cuDevicePrimaryCtxRelease(device))


if __name__ == "__main__":
    main()
