"""`y = x.astype(cp.float64)` reads what another stream is still writing."""

import sys

import cupy as cp
import numpy as np

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    a = cp.cuda.Stream(non_blocking=True)
    x = cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    with a:
        x.fill(3)
    if RIGHT:
        a.synchronize()
    y = x.astype(cp.float64)
    cp.cuda.Device().synchronize()
    print(float(y.sum()))


main()
