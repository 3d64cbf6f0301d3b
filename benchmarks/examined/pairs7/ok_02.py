"""Explicit heat equation on a bar that is split into two halves."""
import numpy as np
from numba import cuda

N = 1 << 20
TPB = 256


@cuda.jit
def step(src, dst, alpha):
    i = cuda.grid(1) + 1
    if i < src.size - 1:
        dst[i] = src[i] + alpha * (src[i - 1] - 2.0 * src[i] + src[i + 1])


@cuda.jit
def take_cell(dst, dst_index, src, src_index):
    dst[dst_index] = src[src_index]


class Half:
    def __init__(self, cells):
        padded = np.zeros(cells.size + 2, np.float64)
        padded[1:-1] = cells
        self.now = cuda.to_device(padded)
        self.next = cuda.to_device(padded)
        self.stream = cuda.stream()
        self.stepped = cuda.event(timing=False)
        self.pulled = cuda.event(timing=False)

    def advance(self, alpha):
        blocks = (self.now.size - 2 + TPB - 1) // TPB
        step[blocks, TPB, self.stream](self.now, self.next, alpha)
        self.now, self.next = self.next, self.now
        self.stepped.record(self.stream)

    def pull(self, own_index, other, other_index):
        other.stepped.wait(self.stream)
        take_cell[1, 1, self.stream](self.now, own_index, other.now, other_index)
        self.pulled.record(self.stream)


def run(initial, steps, alpha=0.2):
    left, right = Half(initial[: N // 2]), Half(initial[N // 2:])
    last = N // 2
    for _ in range(steps):
        left.advance(alpha)
        right.advance(alpha)
        left.pull(last + 1, right, 1)
        right.pull(0, left, last)
        left.pulled.wait(right.stream)
        right.pulled.wait(left.stream)
    left.stream.synchronize()
    right.stream.synchronize()
    return np.concatenate([left.now.copy_to_host()[1:-1], right.now.copy_to_host()[1:-1]])


if __name__ == "__main__":
    bar = np.zeros(N)
    bar[N // 2 - 8: N // 2 + 8] = 100.0
    print(run(bar, 500).max())
