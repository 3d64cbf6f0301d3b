"""Block tables in mapped host memory, read directly by the gather kernel."""
import numpy as np
from numba import cuda


@cuda.jit
def gather_blocks(table, pages, out):
    row = cuda.blockIdx.x
    acc = 0.0
    for j in range(cuda.threadIdx.x, table.shape[1], cuda.blockDim.x):
        acc += pages[table[row, j]]
    cuda.atomic.add(out, row, acc)


class MappedBlockTable:
    def __init__(self, rows, cols, copies=2):
        self.tables = [cuda.mapped_array((rows, cols), dtype=np.int32) for _ in range(copies)]
        self.read_done = [cuda.event(timing=False) for _ in range(copies)]
        self.turn = 0

    def write(self, values):
        k = self.turn % len(self.tables)
        self.read_done[k].synchronize()
        self.tables[k][:] = values
        self.turn += 1
        return k


def main(rows=64, cols=512, steps=200):
    stream = cuda.stream()
    pages = cuda.to_device(np.random.rand(8192), stream=stream)
    out = cuda.device_array(rows, dtype=np.float64, stream=stream)
    blocks = MappedBlockTable(rows, cols)
    rng = np.random.default_rng(1)
    total = np.zeros(rows)
    for step in range(steps):
        k = blocks.write(rng.integers(0, 8192, (rows, cols), dtype=np.int32))
        if step == 0:
            out.copy_to_device(np.zeros(rows), stream=stream)
        gather_blocks[rows, 128, stream](blocks.tables[k], pages, out)
        blocks.read_done[k].record(stream)
    host = out.copy_to_host(stream=stream)
    stream.synchronize()
    total += host
    return total


if __name__ == "__main__":
    print(main().sum())
