"""Two streams count with atomics."""

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
    x, total = cp.ones(N, cp.float32), cp.zeros(1, cp.int32)
    cp.cuda.Device().synchronize()
    count((N // 256,), (256,), (x, total), stream=a)  # earlier
    count((N // 256,), (256,), (x, total), stream=b)  # later
    cp.cuda.Device().synchronize()
    print(int(total[0]))


main()
