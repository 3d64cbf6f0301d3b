"""Guard-cell communication of the particle-in-cell fields with GPU-aware MPI."""
import cupy as cp
import numpy as np
from mpi4py import MPI

NGHOST = 2
NCOMP = 6

_faraday = cp.ElementwiseKernel(
    "raw float32 em, int64 n, float32 dt, int64 comp",
    "float32 out",
    """
    long long x = i / n, y = i % n;
    long long xp = x + 1 < n ? x + 1 : x;
    long long other = (comp + 3) % 6;
    out += dt * (em[(other * n + xp) * n + y] - em[(other * n + x) * n + y]);
    """,
    "faraday",
)


class Metadomain:
    """Slab decomposition along the first axis with periodic neighbours."""

    def __init__(self, comm, ncells):
        self.comm = comm
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()
        self.left = (self.rank - 1) % self.size
        self.right = (self.rank + 1) % self.size
        self.n = ncells + 2 * NGHOST
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.em = cp.zeros((NCOMP, self.n, self.n), dtype=cp.float32)
            face = (NCOMP, NGHOST, self.n)
            self.send = [cp.empty(face, dtype=cp.float32) for _ in range(2)]
            self.recv = [cp.empty(face, dtype=cp.float32) for _ in range(2)]

    def seed(self, seed):
        host = np.random.default_rng(seed).random(self.em.shape, dtype=np.float32)
        self.em.set(host, stream=self.stream)
        self.stream.synchronize()

    def push_fields(self, dt):
        with self.stream:
            for comp in range(NCOMP):
                _faraday(self.em, self.n, dt, comp, self.em[comp])

    def communicate(self):
        n = self.n
        with self.stream:
            self.send[0][...] = self.em[:, NGHOST : 2 * NGHOST]
            self.send[1][...] = self.em[:, n - 2 * NGHOST : n - NGHOST]
        requests = [
            self.comm.Irecv(self.recv[0], source=self.left, tag=1),
            self.comm.Irecv(self.recv[1], source=self.right, tag=0),
            self.comm.Isend(self.send[0], dest=self.left, tag=0),
            self.comm.Isend(self.send[1], dest=self.right, tag=1),
        ]
        MPI.Request.Waitall(requests)
        with self.stream:
            self.em[:, :NGHOST] = self.recv[0]
            self.em[:, n - NGHOST :] = self.recv[1]

    def energy(self):
        with self.stream:
            inner = self.em[:, NGHOST:-NGHOST, NGHOST:-NGHOST]
            local = float((inner * inner).sum())
        return self.comm.allreduce(local, op=MPI.SUM)


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    domain = Metadomain(comm, ncells=2048)
    domain.seed(comm.Get_rank())
    domain.communicate()
    for step in range(500):
        domain.push_fields(dt=0.45)
        domain.communicate()
        if step % 100 == 0:
            total = domain.energy()
            if comm.Get_rank() == 0:
                print(step, total)


if __name__ == "__main__":
    main()
