"""Tile algorithms on a round-robin pool of streams with one workspace per stream."""
import itertools

import cupy as cp
import numpy as np


class PoolEntry:
    def __init__(self, workspace_elems):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.workspace = cp.empty(workspace_elems, dtype=cp.float32)


class StreamPool:
    def __init__(self, size, workspace_elems):
        self.entries = [PoolEntry(workspace_elems) for _ in range(size)]
        self._next = itertools.cycle(self.entries)

    def get_next(self):
        return next(self._next)

    def wait_all(self):
        for entry in self.entries:
            entry.stream.synchronize()


class Tile:
    """A matrix tile and the events of the tasks that touched it."""

    def __init__(self, data):
        self.data = data
        self.written = None
        self.reads = []

    def acquire_read(self, stream):
        if self.written is not None:
            stream.wait_event(self.written)

    def acquire_write(self, stream):
        self.acquire_read(stream)
        for event in self.reads:
            stream.wait_event(event)

    def release_read(self, event):
        self.reads.append(event)

    def release_write(self, event):
        self.written = event
        self.reads = []


def gemm(pool, a, b, c, alpha=-1.0):
    """c += alpha * a @ b on the next stream of the pool."""
    entry = pool.get_next()
    stream = entry.stream
    a.acquire_read(stream)
    b.acquire_read(stream)
    c.acquire_write(stream)
    m, n = c.data.shape
    with stream:
        partial = entry.workspace[: m * n].reshape(m, n)
        cp.matmul(a.data, b.data, out=partial)
        cp.multiply(partial, cp.float32(alpha), out=partial)
        cp.add(c.data, partial, out=c.data)
    done = stream.record()
    a.release_read(done)
    b.release_read(done)
    c.release_write(done)


class Matrix:
    def __init__(self, host, nb):
        self.nb = nb
        self.nt = host.shape[0] // nb
        self.tiles = {}
        for i, j in itertools.product(range(self.nt), repeat=2):
            block = np.ascontiguousarray(host[i * nb:(i + 1) * nb, j * nb:(j + 1) * nb])
            self.tiles[i, j] = Tile(cp.asarray(block))
        cp.cuda.Device().synchronize()

    def __getitem__(self, index):
        return self.tiles[index]

    def to_host(self):
        return np.block([[self.tiles[i, j].data.get() for j in range(self.nt)] for i in range(self.nt)])


def trailing_update(host, nb, nstreams=4):
    mat = Matrix(host.astype(np.float32), nb)
    pool = StreamPool(nstreams, nb * nb)
    for k in range(mat.nt):
        for i in range(k + 1, mat.nt):
            for j in range(k + 1, mat.nt):
                gemm(pool, mat[i, k], mat[k, j], mat[i, j])
    pool.wait_all()
    return mat.to_host()
