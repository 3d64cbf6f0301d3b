"""A side stream writes what is added into another array by an index."""

import sys

import cupy as cp

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    a = cp.cuda.Stream(non_blocking=True)
    index = cp.arange(N) % 7
    y = cp.zeros(7, cp.float32)
    x = cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    with a:
        x.fill(3)
    if RIGHT:
        cp.cuda.get_current_stream().wait_event(a.record())
    cp.add.at(y, index, x)
    cp.cuda.Device().synchronize()
    print(float(y.sum()))


main()
