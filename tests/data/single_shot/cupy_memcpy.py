"""A copy by address of what another stream is still setting."""

import sys

import cupy as cp
import numpy as np

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    a, b = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    x, y = cp.empty(N, cp.float32), cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    cp.cuda.runtime.memsetAsync(x.data.ptr, 1, x.nbytes, a.ptr)
    if RIGHT:
        a.synchronize()
    cp.cuda.runtime.memcpyAsync(y.data.ptr, x.data.ptr, x.nbytes, 3, b.ptr)
    cp.cuda.Device().synchronize()
    print(int(y.view(cp.uint8).sum()))


main()
