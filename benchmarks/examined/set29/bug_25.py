"""Owned device buffers on the stream-ordered allocator (driver API)."""
import numpy as np
from cuda.bindings import driver, nvrtc

SRC = rb"""
extern "C" __global__ void scale(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""


def check(ret):
    err, *vals = ret
    if int(err) != 0:
        raise RuntimeError(f"CUDA error {err}")
    return vals[0] if len(vals) == 1 else vals or None


class CudaStream:
    def __init__(self):
        self.handle = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def wait(self, other):
        ev = check(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        check(driver.cuEventRecord(ev, other.handle))
        check(driver.cuStreamWaitEvent(self.handle, ev, 0))
        check(driver.cuEventDestroy(ev))

    def synchronize(self):
        check(driver.cuStreamSynchronize(self.handle))


class DeviceBuffer:
    def __init__(self, nbytes, stream):
        self.nbytes = nbytes
        self.stream = stream
        self.ptr = check(driver.cuMemAllocAsync(nbytes, stream.handle))

    @classmethod
    def from_host(cls, host, stream):
        buf = cls(host.nbytes, stream)
        check(driver.cuMemcpyHtoDAsync(buf.ptr, host.ctypes.data, host.nbytes, stream.handle))
        return buf

    def drop(self):
        if self.ptr is not None:
            check(driver.cuMemFreeAsync(self.ptr, self.stream.handle))
            self.ptr = None


class Module:
    def __init__(self):
        prog = check(nvrtc.nvrtcCreateProgram(SRC, b"scale.cu", 0, [], []))
        check(nvrtc.nvrtcCompileProgram(prog, 0, []))
        ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
        check(nvrtc.nvrtcGetPTX(prog, ptx))
        self.mod = check(driver.cuModuleLoadData(ptx))
        self.scale = check(driver.cuModuleGetFunction(self.mod, b"scale"))

    def launch_scale(self, y, x, a, n, stream):
        args = [
            np.array([int(y.ptr)], dtype=np.uint64),
            np.array([int(x.ptr)], dtype=np.uint64),
            np.array([a], dtype=np.float32),
            np.array([n], dtype=np.int32),
        ]
        ptrs = np.array([v.ctypes.data for v in args], dtype=np.uint64)
        check(driver.cuLaunchKernel(self.scale, (n + 255) // 256, 1, 1, 256, 1, 1, 0,
                                    stream.handle, ptrs.ctypes.data, 0))


def main():
    check(driver.cuInit(0))
    ctx = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))
    check(driver.cuCtxSetCurrent(ctx))
    module = Module()
    upload, compute = CudaStream(), CudaStream()
    n = 1 << 22
    out = np.empty(n, dtype=np.float32)
    y = DeviceBuffer(out.nbytes, compute)
    check(driver.cuMemsetD32Async(y.ptr, 0, n, compute.handle))
    for step in range(8):
        host = np.full(n, step, dtype=np.float32)
        x = DeviceBuffer.from_host(host, upload)
        compute.wait(upload)
        module.launch_scale(y, x, 2.0, n, compute)
        x.drop()
    check(driver.cuMemcpyDtoHAsync(out.ctypes.data, y.ptr, out.nbytes, compute.handle))
    compute.synchronize()
    y.drop()
    print(out[:4])


if __name__ == "__main__":
    main()
