"""What a side stream reads is overwritten."""

import sys

import cupy as cp

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    a = cp.cuda.Stream(non_blocking=True)
    x = cp.full(N, 3, cp.float32)
    y = cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    with a:
        cp.multiply(x, 2, out=y)
    if RIGHT:
        cp.cuda.get_current_stream().wait_event(a.record())
    x.fill(9)
    cp.cuda.Device().synchronize()
    print(float(y.sum()))


main()
