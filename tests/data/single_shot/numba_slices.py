"""A kernel writes half of an array, and another stream reads all of it."""

import sys

import numpy as np
from numba import cuda

RIGHT = "--right" in sys.argv
N = 1 << 20


@cuda.jit
def put(x, value):
    x[cuda.grid(1)] = value


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    y[i] = 2 * x[i]


def main():
    a, b = cuda.stream(), cuda.stream()
    x, y = cuda.to_device(np.ones(N, np.float32)), cuda.device_array(N, np.float32)
    cuda.synchronize()
    put[N // 512, 256, a](x[: N // 2], 7)
    if RIGHT:
        a.synchronize()
    double[N // 256, 256, b](x, y)
    cuda.synchronize()
    print(y.copy_to_host().sum())


main()
