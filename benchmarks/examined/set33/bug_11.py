"""Block power iterations: every worker owns a stream, the driver combines the partial results."""
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np


class Worker:
    def __init__(self, rank):
        self.rank = rank
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.matrix = None

    def load(self, block):
        with self.stream:
            self.matrix = cp.asarray(block, dtype=cp.float32)
        self.stream.synchronize()
        return self.rank

    def multiply(self, host_vector):
        with self.stream:
            x = cp.asarray(host_vector, dtype=cp.float32)
            y = self.matrix @ x
            for _ in range(3):
                y = cp.tanh(y) + 0.1 * y
            return y


class BlockOperator:
    """Row blocks of one large matrix, multiplied concurrently on one device."""

    def __init__(self, matrix, n_workers=4):
        blocks = np.array_split(np.asarray(matrix, dtype=np.float32), n_workers)
        self.workers = [Worker(i) for i in range(n_workers)]
        self.pool = ThreadPoolExecutor(n_workers)
        list(self.pool.map(lambda wb: wb[0].load(wb[1]), zip(self.workers, blocks)))
        self.shape = matrix.shape

    def __matmul__(self, vector):
        futures = [self.pool.submit(w.multiply, vector) for w in self.workers]
        parts = [f.result() for f in futures]
        return cp.concatenate(parts)

    def close(self):
        self.pool.shutdown(wait=True)
        for worker in self.workers:
            worker.stream.synchronize()


def normalize(v):
    norm = cp.linalg.norm(v)
    return v / norm, norm


def leading_eigenvalue(matrix, iterations=50, tol=1e-5, seed=0):
    n = matrix.shape[0]
    op = BlockOperator(matrix)
    vector = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    previous = 0.0
    try:
        for _ in range(iterations):
            product = op @ vector
            unit, norm = normalize(product)
            vector = cp.asnumpy(unit)
            value = float(norm)
            if abs(value - previous) < tol * max(1.0, abs(value)):
                break
            previous = value
    finally:
        op.close()
    return previous, vector
