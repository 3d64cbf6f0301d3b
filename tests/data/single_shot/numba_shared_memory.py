"""A kernel with shared memory reads what another stream writes."""

import sys

import numba
import numpy as np
from numba import cuda

RIGHT = "--right" in sys.argv
N = 1 << 20


@cuda.jit
def put(x, value):
    x[cuda.grid(1)] = value


@cuda.jit
def sums(x, y):
    tile = cuda.shared.array(256, numba.float32)
    i = cuda.threadIdx.x
    tile[i] = x[cuda.grid(1)]
    cuda.syncthreads()
    if i == 0:
        total = 0.0
        for k in range(256):
            total += tile[k]
        y[cuda.blockIdx.x] = total


def main():
    a, b = cuda.stream(), cuda.stream()
    x, y = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
    cuda.synchronize()
    put[N // 256, 256, a](x, 7)
    if RIGHT:
        a.synchronize()
    sums[N // 256, 256, b](x, y)
    cuda.synchronize()
    print(y.copy_to_host()[: N // 256].sum())


main()
