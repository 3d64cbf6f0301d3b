"""The host reads a pinned array that a copy is still writing."""

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
    x = cuda.device_array(N, np.float32)
    host = cuda.pinned_array(N, np.float32)
    put[N // 256, 256, a](x, 5)
    x.copy_to_host(host, stream=a)
    if RIGHT:
        a.synchronize()
    print(host.sum())


main()
