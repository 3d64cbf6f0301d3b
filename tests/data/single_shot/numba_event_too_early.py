"""The event is recorded before the kernel that it is meant for."""

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
    done = cuda.event()
    cuda.synchronize()
    if not RIGHT:
        done.record(a)
    put[N // 256, 256, a](x, 7)
    if RIGHT:
        done.record(a)
    done.wait(b)
    double[N // 256, 256, b](x, y)
    cuda.synchronize()
    print(y.copy_to_host().sum())


main()
