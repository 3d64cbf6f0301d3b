"""Jacobi iteration over MPI ranks: the interior is swept while halos travel (CUDA-aware MPI)."""
import cupy as cp
import numpy as np
from mpi4py import MPI


class Halo:
    def __init__(self, comm: MPI.Comm, cols: int):
        self.comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self.up = rank - 1 if rank > 0 else MPI.PROC_NULL
        self.down = rank + 1 if rank + 1 < size else MPI.PROC_NULL
        self.send = cp.empty((2, cols), cp.float64)
        self.recv = cp.zeros((2, cols), cp.float64)

    def start(self, u: cp.ndarray, stream: cp.cuda.Stream):
        with stream:
            self.send[0] = u[1]
            self.send[1] = u[-2]
        stream.synchronize()
        return [
            self.comm.Irecv(self.recv[0], self.up, tag=1),
            self.comm.Irecv(self.recv[1], self.down, tag=2),
            self.comm.Isend(self.send[0], self.up, tag=2),
            self.comm.Isend(self.send[1], self.down, tag=1),
        ]

    def finish(self, reqs, u: cp.ndarray, stream: cp.cuda.Stream):
        MPI.Request.Waitall(reqs)
        with stream:
            if self.up != MPI.PROC_NULL:
                u[0] = self.recv[0]
            if self.down != MPI.PROC_NULL:
                u[-1] = self.recv[1]


def sweep(u, v, rows: slice):
    lo, hi = rows.start, rows.stop
    v[rows, 1:-1] = 0.25 * (u[lo - 1 : hi - 1, 1:-1] + u[lo + 1 : hi + 1, 1:-1] + u[rows, :-2] + u[rows, 2:])


def main(rows=512, cols=1024, steps=200):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    edge, body = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    u = cp.zeros((rows + 2, cols))
    if comm.Get_rank() == 0:
        u[0] = 1.0
    v = u.copy()
    halo = Halo(comm, cols)
    cp.cuda.Device().synchronize()
    for _ in range(steps):
        reqs = halo.start(u, edge)
        with body:
            sweep(u, v, slice(2, rows))
        halo.finish(reqs, u, edge)
        with edge:
            sweep(u, v, slice(1, 2))
            sweep(u, v, slice(rows, rows + 1))
        edge.wait_event(body.record())
        body.wait_event(edge.record())
        u, v = v, u
        with edge:
            u[0], u[-1] = v[0], v[-1]
        body.wait_event(edge.record())
    edge.synchronize()
    total = comm.allreduce(float(cp.asnumpy(u[1:-1]).sum()))
    if comm.Get_rank() == 0:
        print(total)


if __name__ == "__main__":
    main()
