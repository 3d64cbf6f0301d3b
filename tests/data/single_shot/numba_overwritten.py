"""A kernel overwrites what another one may still read."""

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
    x, y = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
    double[N // 256, 256, a](x, y)
    if RIGHT:
        a.synchronize()
    put[N // 256, 256, b](x, 3)
    cuda.synchronize()
    print(y.copy_to_host().sum())


main()
