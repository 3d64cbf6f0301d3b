"""A pinned array is refilled while its copy may still be running."""

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
    a = cuda.stream()
    host = cuda.pinned_array(N, np.float32)
    host[:] = 1
    x = cuda.device_array(N, np.float32)
    x.copy_to_device(host, stream=a)
    if RIGHT:
        a.synchronize()
    host[:] = 2
    cuda.synchronize()
    print(x.copy_to_host().sum())


main()
