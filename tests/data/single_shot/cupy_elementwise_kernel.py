"""An elementwise kernel reads what another stream is still writing."""

import sys

import cupy as cp
import numpy as np

RIGHT = "--right" in sys.argv
N = 1 << 20
cubed = cp.ElementwiseKernel("float32 x", "float32 y", "y = x * x * x", "cubed")


def main():
    a, b = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    x, y = cp.empty(N, cp.float32), cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    with a:
        x[...] = 2
    if RIGHT:
        b.wait_event(a.record())
    with b:
        cubed(x, y)
    cp.cuda.Device().synchronize()
    print(float(y.sum()))


main()
