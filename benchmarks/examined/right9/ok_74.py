import cupy as cp
import numpy as np
from numba import cuda


@cuda.jit
def link_cells(pos, head, nxt, cells):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        c = min(int(pos[i] * cells), cells - 1)
        nxt[i] = cuda.atomic.exch(head, c, i)


@cuda.jit
def count_near(pos, head, nxt, cells, cutoff, out):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        c = min(int(pos[i] * cells), cells - 1)
        n = 0
        for k in range(max(0, c - 1), min(cells, c + 2)):
            j = head[k]
            while j >= 0:
                if j != i and abs(pos[i] - pos[j]) < cutoff:
                    n += 1
                j = nxt[j]
        out[i] = n


class NeighbourCounter:
    """Arrays by CuPy, kernels by Numba, one stream for both."""

    def __init__(self, n, cells):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.nb_stream = cuda.external_stream(self.stream.ptr)
        self.cells = cells
        with self.stream:
            self.head = cp.empty(cells, cp.int32)
            self.next = cp.empty(n, cp.int32)
            self.count = cp.empty(n, cp.int32)

    def __call__(self, pos, cutoff):
        blocks = (pos.shape[0] + 127) // 128
        with self.stream:
            self.head.fill(-1)
            link_cells[blocks, 128, self.nb_stream](pos, self.head, self.next, self.cells)
            count_near[blocks, 128, self.nb_stream](pos, self.head, self.next, self.cells, cutoff, self.count)
            return float(self.count.mean())


def main():
    n = 100_000
    counter = NeighbourCounter(n, 1000)
    with counter.stream:
        rng = cp.random.RandomState(4)
        pos = rng.random_sample(n, dtype=np.float64)
        for _ in range(10):
            print(counter(pos, 5e-4))
            pos += 1e-3 * rng.standard_normal(n)
            pos %= 1.0


if __name__ == "__main__":
    main()
