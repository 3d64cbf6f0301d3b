"""Ring halo exchange of a 1-D heat equation with device buffers given to MPI."""
import numpy as np
from mpi4py import MPI
from numba import cuda


@cuda.jit
def pack(u, width, left, right):
    i = cuda.grid(1)
    if i < width:
        left[i] = u[width + i]
        right[i] = u[u.size - 2 * width + i]


@cuda.jit
def unpack(u, width, left, right):
    i = cuda.grid(1)
    if i < width:
        u[i] = left[i]
        u[u.size - width + i] = right[i]


@cuda.jit
def step(u, v, width):
    i = cuda.grid(1)
    if width <= i < u.size - width:
        v[i] = u[i] + 0.25 * (u[i - 1] - 2.0 * u[i] + u[i + 1])


class HeatSolver:
    def __init__(self, comm, n, width=64):
        self.comm, self.n, self.width = comm, n, width
        self.left = (comm.rank - 1) % comm.size
        self.right = (comm.rank + 1) % comm.size
        self.stream = cuda.stream()
        u0 = np.zeros(n + 2 * width)
        u0[width:-width] = np.random.default_rng(comm.rank).random(n)
        self.u = cuda.to_device(u0, stream=self.stream)
        self.v = cuda.to_device(u0, stream=self.stream)
        make = lambda: cuda.device_array(width, np.float64, stream=self.stream)
        self.send = (make(), make())
        self.recv = (make(), make())
        self.stream.synchronize()

    def exchange(self):
        w, s = self.width, self.stream
        pack[1, w, s](self.u, w, self.send[0], self.send[1])
        s.synchronize()
        reqs = [
            self.comm.Irecv(self.recv[0], source=self.left, tag=1),
            self.comm.Irecv(self.recv[1], source=self.right, tag=0),
            self.comm.Isend(self.send[0], dest=self.left, tag=0),
            self.comm.Isend(self.send[1], dest=self.right, tag=1),
        ]
        MPI.Request.Waitall(reqs)
        unpack[1, w, s](self.u, w, self.recv[0], self.recv[1])

    def run(self, steps):
        blocks = (self.n + 2 * self.width + 255) // 256
        for _ in range(steps):
            self.exchange()
            step[blocks, 256, self.stream](self.u, self.v, self.width)
            self.u, self.v = self.v, self.u
        host = self.u.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return host[self.width:-self.width].sum()


def main():
    comm = MPI.COMM_WORLD
    solver = HeatSolver(comm, 1 << 20)
    total = comm.allreduce(solver.run(100))
    if comm.rank == 0:
        print(total)


if __name__ == "__main__":
    main()
