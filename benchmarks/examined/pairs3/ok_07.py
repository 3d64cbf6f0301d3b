"""Halo exchange of a 2D field between MPI ranks with CUDA-aware MPI."""
import cupy as cp
from mpi4py import MPI


class Halo:
    def __init__(self, comm, shape, stream):
        self.comm = comm
        self.stream = stream
        self.up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
        self.down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
        width = shape[1]
        with stream:
            self.send_up, self.send_down = cp.empty(width), cp.empty(width)
            self.recv_up, self.recv_down = cp.zeros(width), cp.zeros(width)

    def pack(self, u):
        self.send_up[:] = u[1]
        self.send_down[:] = u[-2]

    def unpack(self, u):
        if self.up != MPI.PROC_NULL:
            u[0] = self.recv_up
        if self.down != MPI.PROC_NULL:
            u[-1] = self.recv_down

    def exchange(self, u):
        with self.stream:
            self.pack(u)
            self.stream.synchronize()
            reqs = [
                self.comm.Irecv(self.recv_up, self.up, tag=0),
                self.comm.Irecv(self.recv_down, self.down, tag=1),
                self.comm.Isend(self.send_up, self.up, tag=1),
                self.comm.Isend(self.send_down, self.down, tag=0),
            ]
            MPI.Request.Waitall(reqs)
            self.unpack(u)


def step(u):
    u[1:-1, 1:-1] += 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])


def main(n=4096, steps=200):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        u = cp.random.random((n // comm.size + 2, n))
        halo = Halo(comm, u.shape, stream)
        for _ in range(steps):
            halo.exchange(u)
            step(u)
        local = u[1:-1].sum()
        total = comm.allreduce(float(local))
    if comm.rank == 0:
        print(total)


if __name__ == "__main__":
    main()
