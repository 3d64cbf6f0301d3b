"""The event is recorded before the work that it is meant for."""

import sys

import cupy as cp

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    a = cp.cuda.Stream(non_blocking=True)
    x = cp.empty(N, cp.float32)
    done = cp.cuda.Event()
    cp.cuda.Device().synchronize()
    if not RIGHT:
        done.record(a)
    with a:
        x.fill(3)
    if RIGHT:
        done.record(a)
    cp.cuda.get_current_stream().wait_event(done)
    y = x * 2
    print(float(y.sum()))


main()
