"""A kernel reads what an upload on another stream is still writing."""

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
    host = cuda.pinned_array(N, np.float32)
    host[:] = 4
    x, y = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
    x.copy_to_device(host, stream=a)
    if RIGHT:
        a.synchronize()
    double[N // 256, 256, b](x, y)
    cuda.synchronize()
    print(y.copy_to_host().sum())


main()
