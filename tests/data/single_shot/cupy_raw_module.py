"""Two kernels of one module, which is compiled at the first launch."""

import sys

import cupy as cp

RIGHT = "--right" in sys.argv
N = 1 << 20
kernels = cp.RawModule(
    code="""
    extern "C" __global__ void put(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 7; }
    extern "C" __global__ void twice(const float* x, float* y) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        y[i] = 2 * x[i];
    }"""
)


def main():
    a = cp.cuda.Stream(non_blocking=True)
    x, y = cp.empty(N, cp.float32), cp.empty(N, cp.float32)
    put, twice = kernels.get_function("put"), kernels.get_function("twice")
    cp.cuda.Device().synchronize()
    with a:
        put((N // 256,), (256,), (x,))
    if RIGHT:
        cp.cuda.get_current_stream().wait_event(a.record())
    twice((N // 256,), (256,), (x, y))
    cp.cuda.Device().synchronize()
    print(float(y.sum()))


main()
