"""A raw kernel writes on a stream of its own what a reduction reads."""

import sys

import cupy as cp
import numpy as np

RIGHT = "--right" in sys.argv
N = 1 << 20
put = cp.RawKernel(
    """extern "C" __global__ void put(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 7; }""",
    "put",
)
double = cp.RawKernel(
    """extern "C" __global__ void twice(const float* x, float* y) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        y[i] = 2 * x[i];
    }""",
    "twice",
)


def main():
    a = cp.cuda.Stream(non_blocking=True)
    x = cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    with a:
        put((N // 256,), (256,), (x,))
    if RIGHT:
        a.synchronize()
    total = x.sum()
    print(float(total))


main()
