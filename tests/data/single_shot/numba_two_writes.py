"""Two streams write one array."""

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
    x = cuda.device_array(N, np.float32)
    put[N // 256, 256, a](x, 1)
    if RIGHT:
        a.synchronize()
    put[N // 256, 256, b](x, 2)
    cuda.synchronize()
    print(x.copy_to_host().sum())


main()
