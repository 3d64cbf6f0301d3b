"""Uploads the blocks of a sparse matrix store as they are decoded."""
import cupy as cp
import numpy as np


class BlockStore:
    """Dense blocks on the device, keyed by block coordinates."""

    def __init__(self, shape=(512, 512)):
        self.shape = shape
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.blocks = {}

    def _upload(self, block):
        mem = cp.cuda.alloc_pinned_memory(block.nbytes)
        staged = np.frombuffer(mem, block.dtype, block.size).reshape(block.shape)
        staged[...] = block
        with self.stream:
            dev = cp.empty(block.shape, block.dtype)
            dev.data.copy_from_host_async(mem.ptr, block.nbytes, self.stream)
        return dev

    def put(self, row, col, block):
        self.blocks[row, col] = self._upload(block)

    def multiply(self, x):
        n = self.shape[0]
        with self.stream:
            dev_x = cp.asarray(x)
            out = cp.zeros_like(dev_x)
            for (row, col), block in self.blocks.items():
                out[row * n:(row + 1) * n] += block @ dev_x[col * n:(col + 1) * n]
            return out.get()


def decode(rng, shape):
    block = rng.random(shape, dtype=np.float32)
    block[block < 0.9] = 0.0
    return block


def main(grid=8):
    rng = np.random.default_rng(24)
    store = BlockStore()
    for row in range(grid):
        for col in range(grid):
            if (row + col) % 3:
                store.put(row, col, decode(rng, store.shape))
    print(store.multiply(np.ones(grid * 512, np.float32))[:4])


if __name__ == "__main__":
    main()
