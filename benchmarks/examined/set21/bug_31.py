"""BLAS handle with a device workspace, used round-robin over a stream pool."""
import itertools

import cupy as cp
import numpy as np

_SOURCE = r"""
extern "C" __global__ void gemv_partial(const float* a, const float* x, float* partial,
                                        int m, int n, int splits) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, s = blockIdx.y;
    if (row >= m) return;
    int chunk = (n + splits - 1) / splits, end = min(n, (s + 1) * chunk);
    float acc = 0.f;
    for (int k = s * chunk; k < end; ++k) acc += a[(long) row * n + k] * x[k];
    partial[s * m + row] = acc;
}
extern "C" __global__ void gemv_reduce(const float* partial, float* y, int m, int splits,
                                       float alpha, float beta) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m) return;
    float acc = 0.f;
    for (int s = 0; s < splits; ++s) acc += partial[s * m + row];
    y[row] = alpha * acc + beta * y[row];
}
"""


class Handle:
    """Library context: current stream and the memory that the kernels may scribble on."""

    def __init__(self, workspace_bytes=4 << 20):
        module = cp.RawModule(code=_SOURCE)
        self._partial = module.get_function("gemv_partial")
        self._reduce = module.get_function("gemv_reduce")
        self.workspace = cp.empty(workspace_bytes // 4, dtype=cp.float32)
        self.stream = cp.cuda.Stream.null

    def set_stream(self, stream):
        self.stream = stream

    def gemv(self, alpha, a, x, beta, y):
        m, n = a.shape
        splits = max(1, min(16, self.workspace.size // m))
        blocks = (m + 127) // 128
        with self.stream:
            self._partial((blocks, splits), (128,),
                          (a, x, self.workspace, np.int32(m), np.int32(n), np.int32(splits)))
            self._reduce((blocks,), (128,),
                         (self.workspace, y, np.int32(m), np.int32(splits),
                          np.float32(alpha), np.float32(beta)))


class StreamPool:
    def __init__(self, size):
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(size)]
        self._cycle = itertools.cycle(self.streams)

    def next(self):
        return next(self._cycle)

    def synchronize(self):
        for stream in self.streams:
            stream.synchronize()


class BlockDiagonalOperator:
    """y = A x for a block-diagonal A; the blocks run concurrently."""

    def __init__(self, blocks, pool):
        self.pool = pool
        self.handle = Handle()
        self.blocks = [cp.asarray(b, dtype=cp.float32) for b in blocks]
        self.offsets = np.concatenate([[0], np.cumsum([b.shape[0] for b in blocks])])
        cp.cuda.Device().synchronize()

    def matvec(self, x):
        y = cp.zeros_like(x)
        cp.cuda.get_current_stream().synchronize()
        for block, lo, hi in zip(self.blocks, self.offsets[:-1], self.offsets[1:]):
            self.handle.set_stream(self.pool.next())
            self.handle.gemv(1.0, block, x[lo:hi], 0.0, y[lo:hi])
        self.pool.synchronize()
        return y


def power_iteration(blocks, steps=50):
    op = BlockDiagonalOperator(blocks, StreamPool(4))
    x = cp.random.standard_normal(int(op.offsets[-1]), dtype=cp.float32)
    for _ in range(steps):
        y = op.matvec(x)
        x = y / cp.linalg.norm(y)
    return float(cp.dot(x, op.matvec(x)))
