"""Halo exchange of a slab decomposed diffusion solver (CUDA-aware MPI)."""
import cupy as cp
from mpi4py import MPI

_interior = cp.ElementwiseKernel(
    "raw float64 u, int64 nx, int64 lo, float64 k", "raw float64 un",
    "long long j = i + lo * nx;"
    "long long x = j % nx;"
    "double l = u[j - (x > 0)], r = u[j + (x < nx - 1)];"
    "un[j] = u[j] + k * (l + r + u[j - nx] + u[j + nx] - 4 * u[j]);",
    "diffuse_rows")


class HaloExchange:
    def __init__(self, comm, nx, stream):
        self.comm, self.stream = comm, stream
        rank, size = comm.Get_rank(), comm.Get_size()
        self.peers = [(rank - 1) % size, (rank + 1) % size]
        with stream:
            self.send = [cp.empty(nx) for _ in range(2)]
            self.recv = [cp.empty(nx) for _ in range(2)]
        stream.synchronize()
        self.requests = []

    def start(self, u):
        with self.stream:
            self.send[0][...] = u[1]
            self.send[1][...] = u[-2]
        self.stream.synchronize()
        self.requests = [
            self.comm.Irecv(self.recv[0], source=self.peers[0], tag=1),
            self.comm.Irecv(self.recv[1], source=self.peers[1], tag=0),
            self.comm.Isend(self.send[0], dest=self.peers[0], tag=0),
            self.comm.Isend(self.send[1], dest=self.peers[1], tag=1),
        ]

    def finish(self, u):
        MPI.Request.Waitall(self.requests)
        with self.stream:
            u[0] = self.recv[0]
            u[-1] = self.recv[1]


class Diffusion:
    def __init__(self, comm, rows=1024, nx=2048, k=0.1):
        self.comm, self.rows, self.nx, self.k = comm, rows, nx, k
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.u = cp.random.default_rng(comm.Get_rank()).random((rows + 2, nx))
            self.un = cp.empty_like(self.u)
        self.halo = HaloExchange(comm, nx, self.stream)

    def _rows(self, lo, n):
        with self.stream:
            _interior(self.u, self.nx, lo, self.k, self.un, size=n * self.nx)

    def step(self):
        self.halo.start(self.u)
        self._rows(2, self.rows - 2)
        self.halo.finish(self.u)
        self._rows(1, 1)
        self._rows(self.rows, 1)
        self.u, self.un = self.un, self.u

    def mean(self):
        with self.stream:
            local = self.u[1:-1].mean()
        value = float(local.get(stream=self.stream))
        return self.comm.allreduce(value) / self.comm.Get_size()


if __name__ == "__main__":
    solver = Diffusion(MPI.COMM_WORLD)
    for n in range(200):
        solver.step()
    print(MPI.COMM_WORLD.Get_rank(), solver.mean())
