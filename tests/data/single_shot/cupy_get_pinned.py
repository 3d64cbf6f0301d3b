"""The host reads a pinned buffer that a copy is still writing."""

import sys

import cupy as cp
import numpy as np

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    a = cp.cuda.Stream(non_blocking=True)
    memory = cp.cuda.alloc_pinned_memory(4 * N)
    host = np.frombuffer(memory, np.float32, N)
    x = cp.random.rand(N, dtype=cp.float32)
    cp.cuda.Device().synchronize()
    x.get(stream=a, out=host, blocking=False)
    if RIGHT:
        a.synchronize()
    print(host.sum())


main()
