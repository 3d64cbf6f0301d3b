"""Launcher that stages host arrays to the device, runs a kernel and reads the arrays back."""
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc
from cuda.bindings import runtime as cudart

SRC = rb"""
extern "C" __global__ void saxpy_inplace(float* y, const float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) for (int k = 0; k < 200; ++k) y[i] = a * x[i] + 0.5f * y[i];
}
"""


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


def build(name):
    prog = check(nvrtc.nvrtcCreateProgram(SRC, b"k.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 0, []))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    module = check(driver.cuModuleLoadData(ptx))
    return check(driver.cuModuleGetFunction(module, name))


def pinned(n):
    ptr = check(cudart.cudaMallocHost(n * 4))
    return np.ctypeslib.as_array((ctypes.c_float * n).from_address(ptr))


class DeviceAllocator:
    """Stream-ordered allocations out of the default memory pool."""

    def allocate(self, nbytes, stream):
        return check(cudart.cudaMallocAsync(nbytes, stream))

    def deallocate(self, ptr):
        check(cudart.cudaFreeAsync(ptr, 0))


class KernelLauncher:
    def __init__(self, function, allocator):
        self.function = function
        self.allocator = allocator

    def launch(self, y, x, a, active_stream):
        """Runs y = f(y, x); y is complete once active_stream has been synchronized."""
        kind = cudart.cudaMemcpyKind
        device = {}
        for name, host in (("y", y), ("x", x)):
            device[name] = self.allocator.allocate(host.nbytes, active_stream)
            check(cudart.cudaMemcpyAsync(device[name], host.ctypes.data, host.nbytes,
                                         kind.cudaMemcpyHostToDevice, active_stream))
        n = y.size
        args = ((int(device["y"]), int(device["x"]), a, n),
                (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_int))
        check(driver.cuLaunchKernel(self.function, (n + 255) // 256, 1, 1, 256, 1, 1,
                                    0, int(active_stream), args, 0))
        check(cudart.cudaMemcpyAsync(y.ctypes.data, device["y"], y.nbytes,
                                     kind.cudaMemcpyDeviceToHost, active_stream))
        for ptr in device.values():
            self.allocator.deallocate(ptr)


def main(n=1 << 24, rounds=16):
    check(cudart.cudaFree(0))
    launcher = KernelLauncher(build(b"saxpy_inplace"), DeviceAllocator())
    streams = [check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
               for _ in range(2)]
    rng = np.random.default_rng(0)
    fields = []
    for _ in streams:
        y, x = pinned(n), pinned(n)
        y[:] = rng.random(n, dtype=np.float32)
        x[:] = rng.random(n, dtype=np.float32)
        fields.append((y, x))
    for r in range(rounds):
        for (y, x), stream in zip(fields, streams):
            launcher.launch(y, x, 0.25 + 0.01 * r, stream)
        for stream in streams:
            check(cudart.cudaStreamSynchronize(stream))
    print([float(y.mean()) for y, _ in fields])


if __name__ == "__main__":
    main()
