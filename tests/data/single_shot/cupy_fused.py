"""A fused function reads what a side stream writes."""

import sys

import cupy as cp

RIGHT = "--right" in sys.argv
N = 1 << 20


@cp.fuse()
def twice_and_one(x):
    return x * 2 + 1


def main():
    a = cp.cuda.Stream(non_blocking=True)
    x = cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    with a:
        x.fill(3)
    if RIGHT:
        cp.cuda.get_current_stream().wait_event(a.record())
    y = twice_and_one(x)
    print(float(y.sum()))


main()
