"""Jacobi iteration with CUDA-aware MPI halo exchange behind the interior."""
import cupy as cp
from mpi4py import MPI


def sweep(src, dst, lo, hi):
    dst[lo:hi, 1:-1] = 0.25 * (
        src[lo - 1:hi - 1, 1:-1] + src[lo + 1:hi + 1, 1:-1]
        + src[lo:hi, :-2] + src[lo:hi, 2:])


class Slab:
    def __init__(self, comm, rows, cols):
        self.comm = comm
        self.rows = rows
        self.lo, self.hi = comm.Shift(0, 1)
        self.edge = cp.cuda.Stream(non_blocking=True)
        self.bulk = cp.cuda.Stream(non_blocking=True)
        self.edge_done = cp.cuda.Event(disable_timing=True)
        self.bulk_done = cp.cuda.Event(disable_timing=True)
        self.fields = [cp.zeros((rows + 2, cols)) for _ in range(2)]
        for f in self.fields:
            f[:, 0] = comm.rank + 1.0
        self.send = [cp.empty(cols) for _ in range(2)]
        self.recv = [cp.empty(cols) for _ in range(2)]
        cp.cuda.Device().synchronize()

    def _post(self, src):
        self.edge.wait_event(self.bulk_done)
        with self.edge:
            cp.copyto(self.send[0], src[1])
            cp.copyto(self.send[1], src[self.rows])
        self.edge.synchronize()
        return [
            self.comm.Irecv(self.recv[0], source=self.lo, tag=1),
            self.comm.Irecv(self.recv[1], source=self.hi, tag=0),
            self.comm.Isend(self.send[0], dest=self.lo, tag=0),
            self.comm.Isend(self.send[1], dest=self.hi, tag=1),
        ]

    def step(self, k):
        src, dst = self.fields[k % 2], self.fields[(k + 1) % 2]
        requests = self._post(src)
        self.bulk.wait_event(self.edge_done)
        with self.bulk:
            sweep(src, dst, 2, self.rows)
        self.bulk_done.record(self.bulk)
        MPI.Request.Waitall(requests)
        with self.edge:
            cp.copyto(src[0], self.recv[0])
            cp.copyto(src[self.rows + 1], self.recv[1])
            sweep(src, dst, 1, 2)
            sweep(src, dst, self.rows, self.rows + 1)
        self.edge_done.record(self.edge)

    def norm(self, k):
        self.bulk.synchronize()
        with self.edge:
            local = float((self.fields[k % 2][1:-1] ** 2).sum())
        return self.comm.allreduce(local) ** 0.5


def main(steps=400):
    world = MPI.COMM_WORLD
    cp.cuda.Device(world.rank % cp.cuda.runtime.getDeviceCount()).use()
    slab = Slab(world.Create_cart([world.size], periods=[True]), 1024, 2048)
    for k in range(steps):
        slab.step(k)
    norm = slab.norm(steps)
    if world.rank == 0:
        print(norm)


if __name__ == "__main__":
    main()
