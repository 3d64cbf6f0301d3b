"""A stencil over two halves of a grid; each half has its own stream and pinned result."""
from contextlib import ExitStack

import numpy as np
from numba import cuda

BLOCK = (8, 32)


@cuda.jit
def relax(src, dst, omega):
    i, j = cuda.grid(2)
    h, w = dst.shape
    if i < h and 0 < j < w - 1:
        s = src[i, j] + src[i + 2, j] + src[i + 1, j - 1] + src[i + 1, j + 1]
        dst[i, j] = src[i + 1, j] + omega * (0.25 * s - src[i + 1, j])


@cuda.jit
def store_interior(dst, src):
    i, j = cuda.grid(2)
    if i < src.shape[0] and 0 < j < src.shape[1] - 1:
        dst[i + 1, j] = src[i, j]


@cuda.jit
def copy_row(dst, src):
    j = cuda.grid(1)
    if j < dst.shape[0]:
        dst[j] = src[j]


class Half:
    """Rows ``1 .. rows`` belong to the half; row 0 and row ``rows + 1`` are borders."""

    def __init__(self, rows, columns):
        self.rows = rows
        self.stream = cuda.stream()
        self.done = cuda.event(timing=False)
        self.exchanged = cuda.event(timing=False)
        self.field = cuda.device_array((rows + 2, columns), dtype=np.float32)
        self.update = cuda.device_array((rows, columns), dtype=np.float32)
        self.host = cuda.pinned_array((rows + 2, columns), dtype=np.float32)
        self.grid = ((rows + 7) // 8, (columns + 31) // 32)
        self.row_grid = (columns + 255) // 256

    def sweep(self, omega):
        relax[self.grid, BLOCK, self.stream](self.field, self.update, omega)
        store_interior[self.grid, BLOCK, self.stream](self.field, self.update)
        self.done.record(self.stream)

    def take_border(self, target_row, neighbour, source_row):
        neighbour.done.wait(self.stream)
        copy_row[self.row_grid, 256, self.stream](
            self.field[target_row], neighbour.field[source_row])
        self.exchanged.record(self.stream)


class SplitSolver:
    def __init__(self, rows, columns, omega=0.9):
        self.omega = np.float32(omega)
        self.top = Half(rows // 2, columns)
        self.bottom = Half(rows - rows // 2, columns)

    @property
    def halves(self):
        return self.top, self.bottom

    def solve(self, grid, sweeps):
        """grid: rows + 2 by columns, with fixed borders; returns the relaxed grid."""
        split = self.top.rows
        self.top.host[:] = grid[: split + 2]
        self.bottom.host[:] = grid[split:]
        with ExitStack() as stack:
            for half in self.halves:
                stack.enter_context(half.stream.auto_synchronize())
                half.field.copy_to_device(half.host, stream=half.stream)
            for _ in range(sweeps):
                for half in self.halves:
                    half.sweep(self.omega)
                self.top.take_border(split + 1, self.bottom, 1)
                self.bottom.take_border(0, self.top, split)
                self.top.exchanged.wait(self.bottom.stream)
                self.bottom.exchanged.wait(self.top.stream)
            for half in self.halves:
                half.field.copy_to_host(half.host, stream=half.stream)
        result = np.empty_like(grid)
        result[: split + 1] = self.top.host[:-1]
        result[split + 1:] = self.bottom.host[1:]
        return result


if __name__ == "__main__":
    start = np.zeros((2050, 2048), dtype=np.float32)
    start[0] = 1.0
    solver = SplitSolver(2048, 2048)
    for sweeps in (10, 100):
        print(solver.solve(start, sweeps).sum())
