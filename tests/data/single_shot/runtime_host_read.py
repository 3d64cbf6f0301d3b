"""The host reads what a copy is still writing."""

import ctypes
import sys

from cuda.bindings import driver, nvrtc, runtime

RIGHT = "--right" in sys.argv
SIZE = 1 << 20
ANY = runtime.cudaMemcpyKind.cudaMemcpyDefault


def check(result):
    error, *values = result
    assert int(error) == 0, error
    return values[0] if len(values) == 1 else values


def stream():
    return check(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))


def kernel(source, name):
    program = check(nvrtc.nvrtcCreateProgram(source, b"k.cu", 0, [], []))
    major = check(runtime.cudaDeviceGetAttribute(runtime.cudaDeviceAttr.cudaDevAttrComputeCapabilityMajor, 0))
    minor = check(runtime.cudaDeviceGetAttribute(runtime.cudaDeviceAttr.cudaDevAttrComputeCapabilityMinor, 0))
    check(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=sm_{major}{minor}".encode()]))
    image = b" " * check(nvrtc.nvrtcGetCUBINSize(program))
    check(nvrtc.nvrtcGetCUBIN(program, image))
    return check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(image)), name))


def launch(function, queue, *addresses):
    types = (ctypes.c_void_p,) * len(addresses)
    numbers = tuple(int(a) for a in addresses)
    check(driver.cuLaunchKernel(function, SIZE // 1024, 1, 1, 256, 1, 1, 0, int(queue), (numbers, types), 0))


PUT = b'extern "C" __global__ void put(int* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 7; }'
TWICE = b"""extern "C" __global__ void twice(const int* x, int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}"""


def main():
    check(runtime.cudaFree(0))
    a = stream()
    x = check(runtime.cudaMalloc(SIZE))
    host = check(runtime.cudaHostAlloc(SIZE, 0))
    view = (ctypes.c_ubyte * SIZE).from_address(host)
    check(runtime.cudaMemset(x, 5, SIZE))
    check(runtime.cudaDeviceSynchronize())
    check(runtime.cudaMemcpyAsync(host, x, SIZE, ANY, a))
    if RIGHT:
        check(runtime.cudaStreamSynchronize(a))
    print(view[SIZE - 1])


main()
