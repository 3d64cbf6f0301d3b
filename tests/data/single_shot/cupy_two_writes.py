"""Two streams fill one array."""

import sys

import cupy as cp

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    a = cp.cuda.Stream(non_blocking=True)
    x = cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    with a:
        x.fill(1)
    if RIGHT:
        cp.cuda.get_current_stream().wait_event(a.record())
    x.fill(2)
    cp.cuda.Device().synchronize()
    print(float(x.sum()))


main()
