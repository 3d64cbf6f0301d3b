"""What a raw kernel reads is overwritten."""

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
    x, y = cp.empty(N, cp.float32), cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    with a:
        double((N // 256,), (256,), (x, y))
    if RIGHT:
        a.synchronize()
    x.fill(3)
    cp.cuda.Device().synchronize()
    print(float(y.sum()))


main()
