"""The host reads a pinned array while the copy may still fill it."""

import sys

import numpy as np
from numba import cuda

RIGHT = "--right" in sys.argv
N = 1 << 20


@cuda.jit
def put(x, value):
    x[cuda.grid(1)] = value


def main():
    a, b = cuda.stream(), cuda.stream()
    host = cuda.pinned_array(N, np.float32)
    x = cuda.to_device(np.full(N, 5, np.float32))
    cuda.synchronize()
    put[N // 256, 256, a](x, 7)
    x.copy_to_host(host, stream=a)
    if RIGHT:
        a.synchronize()
    first = host.sum()
    cuda.synchronize()
    print(first)


main()
