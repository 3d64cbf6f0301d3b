"""Kernel launches whose functor is passed through constant memory."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

mod = SourceModule("""
__constant__ float functor[256];

__global__ void parallel_for(float *x, int n, int iters)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        float v = x[i];
        for (int k = 0; k < iters; ++k)
            v += functor[k & 255];
        x[i] = v;
    }
}
""")


class CudaInternal:
    """Per-device state shared by all execution space instances."""

    def __init__(self):
        self.kernel = mod.get_function("parallel_for")
        self.constant_ptr, self.constant_size = mod.get_global("functor")
        self.staging = drv.pagelocked_empty(self.constant_size // 4, np.float32)
        self.constant_done = drv.Event()

    def launch_constant(self, instance, functor, x, n, iters):
        self.constant_done.synchronize()
        self.staging[:] = functor
        drv.memcpy_htod_async(self.constant_ptr, self.staging, instance.stream)
        self.constant_done.record(instance.stream)
        self.kernel(x, np.int32(n), np.int32(iters),
                    block=(256, 1, 1), grid=(128, 1), stream=instance.stream)


class CudaInstance:
    def __init__(self, internal):
        self.internal = internal
        self.stream = drv.Stream()

    def parallel_for(self, functor, x, n, iters=4096):
        self.internal.launch_constant(self, functor, x, n, iters)

    def fence(self):
        self.stream.synchronize()


def main(n=1 << 22):
    internal = CudaInternal()
    left, right = CudaInstance(internal), CudaInstance(internal)
    host = np.zeros(n, np.float32)
    xl, xr = drv.to_device(host), drv.to_device(host)
    ones, twos = np.full(256, 1, np.float32), np.full(256, 2, np.float32)
    for _ in range(10):
        left.parallel_for(ones, xl, n)
        right.parallel_for(twos, xr, n)
    left.fence()
    right.fence()
    out = np.empty_like(host)
    drv.memcpy_dtoh(out, xl)
    print("left", out.min(), out.max())
    drv.memcpy_dtoh(out, xr)
    print("right", out.min(), out.max())


if __name__ == "__main__":
    main()
