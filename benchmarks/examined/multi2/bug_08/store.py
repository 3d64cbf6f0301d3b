import cupy as cp
import numpy as np


def pinned(shape, dtype=np.float32):
    n = int(np.prod(shape))
    mem = cp.cuda.alloc_pinned_memory(n * np.dtype(dtype).itemsize)
    return np.frombuffer(mem, dtype, n).reshape(shape)


class FeatureStore:
    """All node features in page-locked memory, a part of them cached on the GPU."""

    def __init__(self, n_blocks, rows, dim, table, seed=0):
        self.table = table
        self.host = pinned((n_blocks, rows, dim))
        rng = np.random.default_rng(seed)
        for b in range(n_blocks):
            self.host[b] = rng.standard_normal((rows, dim), dtype=np.float32)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def fetch(self, block):
        slot = self.table.lookup(block)
        if slot is None:
            slot = self.table.assign(block)
            self.table.data[slot].set(self.host[block], stream=self.stream)
        return slot

    def settle(self):
        self.stream.synchronize()

    @property
    def block_bytes(self):
        return self.host[0].nbytes

    @property
    def host_bytes(self):
        return self.host.nbytes

    def __len__(self):
        return self.host.shape[0]
