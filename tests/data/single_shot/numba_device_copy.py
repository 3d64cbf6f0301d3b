"""An array is copied on the device while another stream fills it."""

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
    x, y = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
    cuda.synchronize()
    put[N // 256, 256, a](x, 7)
    if RIGHT:
        a.synchronize()
    y.copy_to_device(x, stream=b)
    cuda.synchronize()
    print(y.copy_to_host().sum())


main()
