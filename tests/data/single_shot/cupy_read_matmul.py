"""A side stream writes what `x @ w` reads."""

import sys

import cupy as cp

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    a = cp.cuda.Stream(non_blocking=True)
    x, w = cp.empty((1024, 1024), cp.float32), cp.ones((1024, 1024), cp.float32)
    cp.cuda.Device().synchronize()
    with a:
        x.fill(3)
    if RIGHT:
        cp.cuda.get_current_stream().wait_event(a.record())
    y = x @ w
    print(float(y.sum()))


main()
