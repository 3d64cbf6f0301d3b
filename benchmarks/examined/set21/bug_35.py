"""Execution space instances with stream-ordered allocations for scratch views."""
import threading

import numpy as np
from cuda.bindings import runtime as cudart
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest or None


SOURCE = """
extern "C" __global__ void product(const double* x, const double* y, double* t, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        t[i] = x[i] * y[i];
}
extern "C" __global__ void reduce(const double* t, double* out, int n) {
    double acc = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) acc += t[i];
    atomicAdd(out, acc);
}
"""


class CudaSpace:
    """Memory space: asynchronous allocation from the device's default pool."""

    def allocate(self, instance, nbytes):
        return check(cudart.cudaMallocAsync(nbytes, instance.handle))

    def deallocate(self, ptr):
        check(cudart.cudaFreeAsync(ptr, 0))


class CudaInstance:
    def __init__(self, dev):
        self.stream = dev.create_stream()
        self.handle = int(self.stream.handle)

    def fence(self):
        self.stream.sync()


class ScratchView:
    """Device array with the lifetime of a ``with`` block."""

    def __init__(self, space, instance, count):
        self.space = space
        self.ptr = space.allocate(instance, 8 * count)

    def __enter__(self):
        return int(self.ptr)

    def __exit__(self, *exc):
        self.space.deallocate(self.ptr)


class DotWorker(threading.Thread):
    def __init__(self, dev, module, space, x, y, out, n, repeats):
        super().__init__()
        self.dev, self.space = dev, space
        self.product, self.reduce = module.get_kernel("product"), module.get_kernel("reduce")
        self.x, self.y, self.out, self.n, self.repeats = x, y, out, n, repeats

    def run(self):
        self.dev.set_current()
        instance = CudaInstance(self.dev)
        wide = LaunchConfig(grid=256, block=256)
        narrow = LaunchConfig(grid=1, block=256)
        for _ in range(self.repeats):
            with ScratchView(self.space, instance, self.n) as temp:
                launch(instance.stream, wide, self.product, self.x, self.y, temp, np.int32(self.n))
                launch(instance.stream, narrow, self.reduce, temp, self.out, np.int32(self.n))
        instance.fence()


def run(n=1 << 20, nthreads=4, repeats=20):
    dev = Device()
    dev.set_current()
    module = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{dev.arch}")).compile(
        "cubin", name_expressions=("product", "reduce"))
    host = np.linspace(0, 1, n)
    x, y = (int(check(cudart.cudaMalloc(8 * n))) for _ in range(2))
    outs = int(check(cudart.cudaMalloc(8 * nthreads)))
    for dst in (x, y):
        check(cudart.cudaMemcpy(dst, host.ctypes.data, 8 * n, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice))
    check(cudart.cudaMemset(outs, 0, 8 * nthreads))
    check(cudart.cudaDeviceSynchronize())
    space = CudaSpace()
    workers = [DotWorker(dev, module, space, x, y, outs + 8 * i, n, repeats) for i in range(nthreads)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    result = np.empty(nthreads)
    check(cudart.cudaMemcpy(result.ctypes.data, outs, 8 * nthreads, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    return result / repeats
