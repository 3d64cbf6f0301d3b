"""A reduction of the program's own, compiled where it is launched, reads what a side stream writes."""

import sys

import cupy as cp

RIGHT = "--right" in sys.argv
N = 1 << 20
norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")


def main():
    a = cp.cuda.Stream(non_blocking=True)
    x = cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    with a:
        x.fill(3)
    if RIGHT:
        cp.cuda.get_current_stream().wait_event(a.record())
    y = norm(x)
    print(float(y))


main()
