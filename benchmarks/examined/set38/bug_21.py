"""Column moments of a cells-by-genes matrix, spread over the GPUs of a host."""
import argparse

import cupy as cp
import numpy as np


class DevicePart:
    """Running sums for the rows that were handed to one GPU."""

    def __init__(self, device_id, n_genes):
        self.device_id = device_id
        self.n_genes = n_genes
        self.rows = 0
        with cp.cuda.Device(device_id):
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self.totals = cp.zeros((2, n_genes), dtype=cp.float64)

    def accumulate(self, block):
        with cp.cuda.Device(self.device_id), self.stream:
            x = cp.asarray(block, dtype=cp.float64)
            cp.log1p(x, out=x)
            self.totals[0] += x.sum(axis=0)
            cp.square(x, out=x)
            self.totals[1] += x.sum(axis=0)
        self.rows += block.shape[0]


class MomentReducer:
    def __init__(self, parts, root=0):
        self.parts = parts
        self.root = root
        n_genes = parts[0].n_genes
        with cp.cuda.Device(root):
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self.sums = cp.zeros((2, n_genes), dtype=cp.float64)
                self.inbox = cp.empty_like(self.sums)

    def _fetch(self, part):
        cp.cuda.runtime.memcpyPeerAsync(
            self.inbox.data.ptr,
            self.root,
            part.totals.data.ptr,
            part.device_id,
            part.totals.nbytes,
            self.stream.ptr,
        )

    def reduce(self):
        with cp.cuda.Device(self.root), self.stream:
            for part in self.parts:
                self._fetch(part)
                self.sums += self.inbox
            n = sum(part.rows for part in self.parts)
            mean = self.sums[0] / n
            var = self.sums[1] / n - mean * mean
            var *= n / max(n - 1, 1)
        self.stream.synchronize()
        return cp.asnumpy(mean), cp.asnumpy(var)


def row_blocks(matrix, size):
    for lo in range(0, matrix.shape[0], size):
        yield matrix[lo:lo + size]


def moments(matrix, block_rows=4096):
    n_dev = cp.cuda.runtime.getDeviceCount()
    parts = [DevicePart(i, matrix.shape[1]) for i in range(n_dev)]
    for i, block in enumerate(row_blocks(matrix, block_rows)):
        parts[i % n_dev].accumulate(block)
    return MomentReducer(parts).reduce()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cells", type=int, default=100_000)
    ap.add_argument("--genes", type=int, default=2_000)
    args = ap.parse_args()
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.3, size=(args.cells, args.genes)).astype(np.float32)
    mean, var = moments(counts)
    order = np.argsort(var / np.maximum(mean, 1e-12))[::-1]
    print("top genes:", order[:20].tolist())


if __name__ == "__main__":
    main()
