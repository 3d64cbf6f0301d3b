"""A pinned buffer is refilled while its copy may still be running."""

import sys

import cupy as cp
import numpy as np

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    a = cp.cuda.Stream(non_blocking=True)
    memory = cp.cuda.alloc_pinned_memory(4 * N)
    host = np.frombuffer(memory, np.float32, N)
    host[...] = 1
    x = cp.empty(N, cp.float32)
    cp.cuda.Device().synchronize()
    x.set(host, stream=a)
    if RIGHT:
        a.synchronize()
    host[...] = 2
    cp.cuda.Device().synchronize()
    print(float(x.sum()))


main()
