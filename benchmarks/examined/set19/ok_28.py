"""Parameter sweep on non-blocking streams with inputs staged on the legacy stream."""
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = rb"""
extern "C" __global__ void saxpy(float a, const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else tuple(rest)


def build(name):
    prog = check(nvrtc.nvrtcCreateProgram(SOURCE, b"sweep.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 1, [b"--gpu-architecture=compute_80"]))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    module = check(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
    return check(driver.cuModuleGetFunction(module, name))


class DeviceArray:
    """Plain device allocation; construction copies on the legacy stream."""

    def __init__(self, n, host=None):
        self.n = n
        self.ptr = check(driver.cuMemAlloc(n * 4))
        if host is not None:
            check(driver.cuMemcpyHtoD(self.ptr, host.ctypes.data, host.nbytes))

    def free(self):
        check(driver.cuMemFree(self.ptr))


class Sweep:
    def __init__(self, function, x, y, lanes):
        self.function = function
        self.x = DeviceArray(x.size, x)
        self.y = DeviceArray(y.size, y)
        self.staged = check(driver.cuEventCreate(
            driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        check(driver.cuEventRecord(self.staged, driver.CUstream(0)))
        self.lanes = []
        for _ in range(lanes):
            stream = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
            check(driver.cuStreamWaitEvent(stream, self.staged, 0))
            host = check(driver.cuMemAllocHost(x.nbytes))
            view = np.ctypeslib.as_array(
                (ctypes.c_float * x.size).from_address(int(host)))
            self.lanes.append((stream, DeviceArray(x.size), host, view))

    def _launch(self, lane, a):
        stream, out, host, _ = lane
        slots = [np.array([a], np.float32)]
        slots += [np.array([int(p)], np.uint64) for p in (self.x.ptr, self.y.ptr, out.ptr)]
        slots.append(np.array([out.n], np.int32))
        params = np.array([s.ctypes.data for s in slots], np.uint64)
        check(driver.cuLaunchKernel(self.function, (out.n + 255) // 256, 1, 1, 256, 1, 1,
                                    0, stream, params.ctypes.data, 0))
        check(driver.cuMemcpyDtoHAsync(int(host), out.ptr, out.n * 4, stream))

    def run(self, coefficients):
        results = {}
        pending = [None] * len(self.lanes)
        for turn, a in enumerate(coefficients):
            slot = turn % len(self.lanes)
            self._reap(slot, pending, results)
            self._launch(self.lanes[slot], a)
            pending[slot] = a
        for slot in range(len(self.lanes)):
            self._reap(slot, pending, results)
        return results

    def _reap(self, slot, pending, results):
        if pending[slot] is not None:
            stream, _, _, view = self.lanes[slot]
            check(driver.cuStreamSynchronize(stream))
            results[pending[slot]] = float(view.sum())
            pending[slot] = None

    def close(self):
        for stream, out, host, _ in self.lanes:
            check(driver.cuStreamSynchronize(stream))
            out.free()
            check(driver.cuMemFreeHost(int(host)))
            check(driver.cuStreamDestroy(stream))
        self.x.free()
        self.y.free()


def main():
    check(driver.cuInit(0))
    ctx = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))
    check(driver.cuCtxSetCurrent(ctx))
    n = 1 << 22
    x = np.linspace(0, 1, n, dtype=np.float32)
    sweep = Sweep(build(b"saxpy"), x, np.ones(n, np.float32), lanes=3)
    print(sweep.run([0.1 * k for k in range(16)]))
    sweep.close()


if __name__ == "__main__":
    main()
