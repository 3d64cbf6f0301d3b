"""Jacobi solver with overlapped halo exchange (mpi4py with CUDA-aware MPI, CuPy)."""
import cupy as cp
import numpy as np
from mpi4py import MPI

_relax = cp.ElementwiseKernel(
    "raw float32 u, int32 cols, int32 first",
    "float32 out",
    """
    int row = first + i / (cols - 2);
    int col = 1 + i % (cols - 2);
    long long k = (long long)row * cols + col;
    out = 0.25f * (u[k - 1] + u[k + 1] + u[k - cols] + u[k + cols]);
    """,
    "relax_rows",
)


class Slab:
    def __init__(self, rows, cols):
        self.rows, self.cols = rows, cols
        self.u = cp.zeros((rows + 2, cols), dtype=cp.float32)
        self.edges = cp.zeros((2, cols - 2), dtype=cp.float32)
        self.inner = cp.zeros((rows - 2, cols - 2), dtype=cp.float32)


class Jacobi:
    def __init__(self, comm, rows, cols):
        self.comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.up = self.rank - 1 if self.rank > 0 else MPI.PROC_NULL
        self.down = self.rank + 1 if self.rank < self.size - 1 else MPI.PROC_NULL
        self.slab = Slab(rows, cols)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.edges_ready = cp.cuda.Event(disable_timing=True)
        self.ghost = [cp.zeros(cols - 2, dtype=cp.float32) for _ in range(2)]
        if self.rank == 0:
            self.slab.u[0, :] = 100.0
        cp.cuda.Device().synchronize()

    def _relax_edges(self):
        s = self.slab
        cols = np.int32(s.cols)
        _relax(s.u, cols, np.int32(1), s.edges[0])
        _relax(s.u, cols, np.int32(s.rows), s.edges[1])

    def _relax_inner(self):
        s = self.slab
        _relax(s.u, np.int32(s.cols), np.int32(2), s.inner.reshape(-1))

    def _commit(self):
        s = self.slab
        s.u[1, 1:-1] = s.edges[0]
        s.u[s.rows, 1:-1] = s.edges[1]
        s.u[2:s.rows, 1:-1] = s.inner
        if self.up != MPI.PROC_NULL:
            s.u[0, 1:-1] = self.ghost[0]
        if self.down != MPI.PROC_NULL:
            s.u[s.rows + 1, 1:-1] = self.ghost[1]

    def iterate(self):
        with self.stream:
            self._relax_edges()
            self.edges_ready.record(self.stream)
            self._relax_inner()
        self.edges_ready.synchronize()
        requests = [
            self.comm.Irecv([self.ghost[0], MPI.FLOAT], source=self.up, tag=2),
            self.comm.Irecv([self.ghost[1], MPI.FLOAT], source=self.down, tag=1),
            self.comm.Isend([self.slab.edges[0], MPI.FLOAT], dest=self.up, tag=1),
            self.comm.Isend([self.slab.edges[1], MPI.FLOAT], dest=self.down, tag=2),
        ]
        MPI.Request.Waitall(requests)
        with self.stream:
            self._commit()

    def checksum(self):
        with self.stream:
            local = self.slab.u[1:-1].sum()
        self.stream.synchronize()
        return self.comm.allreduce(float(local))


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    solver = Jacobi(comm, rows=2048, cols=4096)
    for _ in range(300):
        solver.iterate()
    value = solver.checksum()
    if comm.Get_rank() == 0:
        print(value)


if __name__ == "__main__":
    main()
