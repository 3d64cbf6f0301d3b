import cupy as cp
import numpy as np
from mpi4py import MPI

_update_e = cp.ElementwiseKernel(
    "raw float64 h, float64 c, int64 nx, int64 ny",
    "float64 e",
    """
    long long x = i % nx, y = i / nx;
    if (x > 0 && y > 0 && x < nx - 1 && y < ny - 1)
        e += c * (h[i + 1] + h[i - 1] + h[i + nx] + h[i - nx] - 4.0 * h[i]);
    """,
    "update_e",
)


class GhostRows:
    """Host copies of the boundary rows that travel between neighbours."""

    def __init__(self, comm, nx):
        self.comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self.up = rank - 1 if rank else MPI.PROC_NULL
        self.down = rank + 1 if rank + 1 < size else MPI.PROC_NULL
        self.recv_up = np.zeros(nx)
        self.recv_down = np.zeros(nx)

    def exchange(self, first, last):
        requests = [
            self.comm.Irecv(self.recv_up, source=self.up, tag=1),
            self.comm.Irecv(self.recv_down, source=self.down, tag=0),
            self.comm.Isend(first, dest=self.up, tag=0),
            self.comm.Isend(last, dest=self.down, tag=1),
        ]
        MPI.Request.Waitall(requests)
        return self.recv_up, self.recv_down


class FDTD:
    def __init__(self, comm, nx, ny, c=0.2):
        self.comm = comm
        self.nx, self.ny, self.c = nx, ny, np.float64(c)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.e = cp.zeros((ny, nx))
            self.h = cp.zeros((ny, nx))
        self.ghosts = GhostRows(comm, nx)

    def _exchange(self, field):
        first = field[1].get(stream=self.stream)
        last = field[-2].get(stream=self.stream)
        up, down = self.ghosts.exchange(first, last)
        with self.stream:
            if self.ghosts.up != MPI.PROC_NULL:
                field[0] = cp.asarray(up)
            if self.ghosts.down != MPI.PROC_NULL:
                field[-1] = cp.asarray(down)

    def step(self, t):
        with self.stream:
            _update_e(self.h, self.c, self.nx, self.ny, self.e)
            if self.comm.Get_rank() == 0:
                self.e[self.ny // 2, self.nx // 2] += np.sin(0.1 * t)
        self._exchange(self.e)
        with self.stream:
            _update_e(self.e, self.c, self.nx, self.ny, self.h)
        self._exchange(self.h)

    def energy(self):
        with self.stream:
            local = float((self.e**2 + self.h**2)[1:-1].sum())
        return self.comm.allreduce(local)


def main(steps=1000):
    sim = FDTD(MPI.COMM_WORLD, 2048, 1024)
    for t in range(steps):
        sim.step(t)
    return sim.energy()
