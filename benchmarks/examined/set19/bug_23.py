"""Kernel launchers that bring external host arrays to the device for one call."""
import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = rb"""
extern "C" __global__ void integrate(float* x, float* v, int n, float dt) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { v[i] -= 9.81f * dt; x[i] += v[i] * dt; }
}
extern "C" __global__ void relax(float* p, float* q, int n, float w) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i + 1 < n) q[i] = (1.f - w) * p[i] + 0.5f * w * (p[i - 1] + p[i + 1]);
}
"""


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else tuple(rest)


def compile_module():
    prog = check(nvrtc.nvrtcCreateProgram(SOURCE, b"fields.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 1, [b"--gpu-architecture=compute_80"]))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    return check(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))


def pinned(n):
    array = np.zeros(n, np.float32)
    check(driver.cuMemHostRegister(array.ctypes.data, array.nbytes, 0))
    return array


class CudaDevice:
    """Memory pool front end shared by all launchers of a context."""

    def alloc(self, nbytes, stream):
        return check(driver.cuMemAllocAsync(nbytes, stream))

    def dealloc(self, ptr):
        check(driver.cuMemFreeAsync(ptr, driver.CUstream(0)))


class KernelLauncher:
    def __init__(self, device, function):
        self.device = device
        self.function = function
        self.stream = check(driver.cuStreamCreate(
            driver.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def launch(self, arrays, scalar):
        """Upload arrays, run the kernel on them, bring them back in place."""
        transfers = []
        for host in arrays:
            ptr = self.device.alloc(host.nbytes, self.stream)
            check(driver.cuMemcpyHtoDAsync(ptr, host.ctypes.data, host.nbytes, self.stream))
            transfers.append((host, ptr))

        n = np.array([arrays[0].size], np.int32)
        w = np.array([scalar], np.float32)
        slots = [np.array([int(ptr)], np.uint64) for _, ptr in transfers] + [n, w]
        params = np.array([s.ctypes.data for s in slots], np.uint64)
        check(driver.cuLaunchKernel(
            self.function, (arrays[0].size + 255) // 256, 1, 1, 256, 1, 1,
            0, self.stream, params.ctypes.data, 0))

        for host, ptr in transfers:
            check(driver.cuMemcpyDtoHAsync(host.ctypes.data, ptr, host.nbytes, self.stream))
        for _, ptr in transfers:
            self.device.dealloc(ptr)

    def synchronize(self):
        check(driver.cuStreamSynchronize(self.stream))


def main():
    check(driver.cuInit(0))
    dev = check(driver.cuDeviceGet(0))
    ctx = check(driver.cuDevicePrimaryCtxRetain(dev))
    check(driver.cuCtxSetCurrent(ctx))
    module = compile_module()
    device = CudaDevice()
    bodies = KernelLauncher(device, check(driver.cuModuleGetFunction(module, b"integrate")))
    field = KernelLauncher(device, check(driver.cuModuleGetFunction(module, b"relax")))

    x, v, p, q = (pinned(1 << 22) for _ in range(4))
    p[:] = np.linspace(0.0, 1.0, p.size)
    for _ in range(100):
        bodies.launch([x, v], 1e-3)
        field.launch([p, q], 0.5)
        bodies.synchronize()
        field.synchronize()
        p, q = q, p
    print(x[0], p[1])


if __name__ == "__main__":
    main()
