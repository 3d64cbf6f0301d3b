"""Brute force nearest neighbours with scratch memory from RMM."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


class Scratch:
    """Scratch buffers of one call; returned to the resource on exit."""

    def __init__(self, stream):
        self.stream = stream
        self.rmm_stream = Stream(obj=stream)
        self.buffers = []

    def __enter__(self):
        return self

    def empty(self, shape, dtype):
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        buf = rmm.DeviceBuffer(size=nbytes, stream=self.rmm_stream)
        self.buffers.append(buf)
        mem = cp.cuda.UnownedMemory(buf.ptr, nbytes, buf)
        return cp.ndarray(shape, dtype, memptr=cp.cuda.MemoryPointer(mem, 0))

    def __exit__(self, *exc):
        self.stream.synchronize()
        self.buffers.clear()


def knn(index, queries, k, stream):
    with stream, Scratch(stream) as scratch:
        dots = scratch.empty((queries.shape[0], index.shape[0]), cp.float32)
        norms = scratch.empty((index.shape[0],), cp.float32)
        cp.matmul(queries, index.T, out=dots)
        cp.sum(index * index, axis=1, out=norms)
        cp.multiply(dots, -2.0, out=dots)
        cp.add(dots, norms, out=dots)
        neighbours = cp.argpartition(dots, k, axis=1)[:, :k].copy()
    return neighbours


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        index = cp.random.random((20000, 64), dtype=cp.float32)
        batches = [cp.random.random((256, 64), dtype=cp.float32) for _ in range(8)]
    hits = 0
    for batch in batches:
        ids = knn(index, batch, 10, stream)
        with stream:
            hits += int(cp.asnumpy(ids).size)
    print(hits)


if __name__ == "__main__":
    main()
