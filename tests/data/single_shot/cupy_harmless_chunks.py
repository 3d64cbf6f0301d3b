"""Two streams work on the halves of one array, with its address and an offset."""

import sys

import cupy as cp
import numpy as np

RIGHT = "--right" in sys.argv
N = 1 << 20
scale = cp.RawKernel(
    """extern "C" __global__ void scale(float* x, int offset) {
        int i = offset + blockIdx.x * blockDim.x + threadIdx.x;
        x[i] = 2 * x[i] + 1;
    }""",
    "scale",
)
count = cp.RawKernel(
    """extern "C" __global__ void count(const float* x, int* total) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (x[i] >= 0) atomicAdd(total, 1);
    }""",
    "count",
)
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
    a, b = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    x = cp.ones(N, cp.float32)
    cp.cuda.Device().synchronize()
    scale((N // 512,), (256,), (x, np.int32(0)), stream=a)  # earlier
    scale((N // 512,), (256,), (x, np.int32(N // 2)), stream=b)  # later
    cp.cuda.Device().synchronize()
    print(float(x.sum()))


main()
