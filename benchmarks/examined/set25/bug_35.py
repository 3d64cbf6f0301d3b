"""Kernel launcher: host-backed external arrays travel through pool memory."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt


def check(res):
    err, rest = res[0], res[1:]
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


class ExternalArray:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(rt.cudaMallocHost(nbytes))
        self.array = np.ctypeslib.as_array(
            ctypes.cast(self.ptr, ctypes.POINTER(ctypes.c_uint8)), (nbytes,))


class Executor:
    """Allocates and releases launch temporaries from the device memory pool."""

    def allocate_memory_on_device(self, nbytes):
        return check(rt.cudaMallocAsync(nbytes, 0))

    def deallocate_memory_on_device(self, ptr):
        check(rt.cudaFreeAsync(ptr, 0))


class KernelLauncher:
    def __init__(self, executor):
        self.executor = executor

    def launch(self, kernel, arrays, stream):
        kind = rt.cudaMemcpyKind
        transfers = []
        for arr in arrays:
            ptr = self.executor.allocate_memory_on_device(arr.nbytes)
            transfers.append((arr, ptr))
        check(rt.cudaStreamSynchronize(0))
        for arr, ptr in transfers:
            check(rt.cudaMemcpyAsync(ptr, arr.ptr, arr.nbytes,
                                     kind.cudaMemcpyHostToDevice, stream))
        kernel([ptr for _, ptr in transfers], [a.nbytes for a in arrays], stream)
        for arr, ptr in transfers:
            check(rt.cudaMemcpyAsync(arr.ptr, ptr, arr.nbytes,
                                     kind.cudaMemcpyDeviceToHost, stream))
        for _, ptr in transfers:
            self.executor.deallocate_memory_on_device(ptr)


def fill_kernel(value):
    def run(ptrs, sizes, stream):
        for ptr, size in zip(ptrs, sizes):
            check(rt.cudaMemsetAsync(ptr, value, size, stream))
    return run


def main():
    executor = Executor()
    launcher = KernelLauncher(executor)
    streams = [check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking)) for _ in range(2)]
    batches = [[ExternalArray(64 << 20), ExternalArray(32 << 20)] for _ in range(2)]
    for rnd in range(4):
        for k in range(2):
            launcher.launch(fill_kernel(16 * k + rnd + 1), batches[k], streams[k])
        for s in streams:
            check(rt.cudaStreamSynchronize(s))
        for k in range(2):
            print(rnd, k, [int(a.array.max()) for a in batches[k]])


if __name__ == "__main__":
    main()
