"""The host reads a pinned buffer while the copy may still fill it."""

import sys

import cupy as cp
import numpy as np

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    a = cp.cuda.Stream(non_blocking=True)
    x = cp.full(N, 5, cp.float32)
    host = np.frombuffer(cp.cuda.alloc_pinned_memory(4 * N), np.float32, N)
    cp.cuda.Device().synchronize()
    x.get(stream=a, out=host, blocking=False)
    if RIGHT:
        a.synchronize()
    first = host.sum()
    a.synchronize()
    print(first)


main()
