"""A side stream writes what is taken by an index."""

import sys

import cupy as cp

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    a = cp.cuda.Stream(non_blocking=True)
    index = cp.arange(0, N, 2)
    x = cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    with a:
        x.fill(3)
    if RIGHT:
        cp.cuda.get_current_stream().wait_event(a.record())
    y = x[index]
    print(float(y.sum()))


main()
