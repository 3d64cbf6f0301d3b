"""Encoder worker whose batch descriptors live in host memory that kernels read in place."""
import math

import numpy as np
from numba import cuda

MAX_ITEMS = 4096
DIM = 512


@cuda.jit
def gather_rows(table, row_ids, n_items, out):
    i = cuda.blockIdx.x
    if i < n_items:
        row = row_ids[i]
        for j in range(cuda.threadIdx.x, out.shape[1], cuda.blockDim.x):
            out[i, j] = table[row, j]


@cuda.jit
def mix(x, n_items, rounds, out):
    i = cuda.blockIdx.x
    if i < n_items:
        for j in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
            v = x[i, j]
            for _ in range(rounds):
                v = math.tanh(v * 1.01 + 0.001)
            out[i, j] += v


class DescriptorPool:
    """Hands out the descriptor arrays one after the other."""

    def __init__(self, count, stream):
        self.arrays = [cuda.mapped_array(MAX_ITEMS, dtype=np.int32, stream=stream)
                       for _ in range(count)]
        self.turn = 0

    def fill(self, ids):
        arr = self.arrays[self.turn]
        self.turn = (self.turn + 1) % len(self.arrays)
        arr[:len(ids)] = ids
        return arr


class EncoderRunner:
    def __init__(self, table, in_flight=2):
        self.stream = cuda.stream()
        self.table = cuda.to_device(table)
        self.pool = DescriptorPool(in_flight, self.stream)
        self.rows = cuda.device_array((MAX_ITEMS, DIM), dtype=np.float32, stream=self.stream)
        self.acc = cuda.to_device(np.zeros((MAX_ITEMS, DIM), dtype=np.float32))
        self.host_out = cuda.pinned_array((8, DIM), dtype=np.float32)

    def _launch(self, ids):
        n = len(ids)
        desc = self.pool.fill(ids)
        gather_rows[MAX_ITEMS, 128, self.stream](self.table, desc, n, self.rows)
        mix[MAX_ITEMS, 128, self.stream](self.rows, n, 200, self.acc)

    def encode(self, ids):
        self._launch(ids)
        return {"items": len(ids)}

    def encode_and_peek(self, ids):
        self._launch(ids)
        self.acc[:8].copy_to_host(self.host_out, stream=self.stream)
        self.stream.synchronize()
        return {"items": len(ids), "peek": float(self.host_out.mean())}


def work(n_steps, n_rows):
    rng = np.random.default_rng(0)
    for step in range(n_steps):
        n = int(rng.integers(1024, MAX_ITEMS))
        yield step, rng.integers(0, n_rows, n).astype(np.int32)


def main():
    rng = np.random.default_rng(1)
    table = rng.standard_normal((50_000, DIM), dtype=np.float32)
    runner = EncoderRunner(table)
    total = 0
    for step, ids in work(64, len(table)):
        if step % 16 == 15:
            report = runner.encode_and_peek(ids)
            print(step, report["peek"])
        else:
            report = runner.encode(ids)
        total += report["items"]
    runner.stream.synchronize()
    print("items", total)


if __name__ == "__main__":
    main()
