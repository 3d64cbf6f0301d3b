"""Halo exchange of a 2-D diffusion solver with CUDA-aware MPI."""
import cupy as cp
from mpi4py import MPI

_step = cp.ElementwiseKernel(
    "float32 c, float32 n, float32 s, float32 w, float32 e, float32 k",
    "float32 out",
    "out = c + k * (n + s + w + e - 4.0f * c)",
    "diffuse",
)


class HaloExchange:
    def __init__(self, comm, width, stream):
        self.comm = comm
        self.stream = stream
        rank, size = comm.Get_rank(), comm.Get_size()
        self.up = rank - 1 if rank > 0 else MPI.PROC_NULL
        self.down = rank + 1 if rank + 1 < size else MPI.PROC_NULL
        with stream:
            self.send = {side: cp.zeros(width, cp.float32) for side in ("up", "down")}
            self.recv = {side: cp.zeros(width, cp.float32) for side in ("up", "down")}
        self.requests = []

    def start(self, field):
        with self.stream:
            self.send["up"][...] = field[1]
            self.send["down"][...] = field[-2]
        self.stream.synchronize()
        self.requests = [
            self.comm.Irecv(self.recv["up"], source=self.up, tag=1),
            self.comm.Irecv(self.recv["down"], source=self.down, tag=0),
            self.comm.Isend(self.send["up"], dest=self.up, tag=0),
            self.comm.Isend(self.send["down"], dest=self.down, tag=1),
        ]

    def finish(self, field):
        MPI.Request.Waitall(self.requests)
        self.requests = []
        with self.stream:
            if self.up != MPI.PROC_NULL:
                field[0] = self.recv["up"]
            if self.down != MPI.PROC_NULL:
                field[-1] = self.recv["down"]


class Solver:
    def __init__(self, comm, rows, width, k=0.2):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.k = cp.float32(k)
        with self.stream:
            self.field = cp.zeros((rows + 2, width), cp.float32)
            self.next = cp.zeros_like(self.field)
            if comm.Get_rank() == 0:
                self.field[0] = 1.0
                self.next[0] = 1.0
        self.halo = HaloExchange(comm, width, self.stream)

    def _update(self, lo, hi):
        f = self.field
        _step(
            f[lo:hi, 1:-1], f[lo - 1 : hi - 1, 1:-1], f[lo + 1 : hi + 1, 1:-1],
            f[lo:hi, :-2], f[lo:hi, 2:], self.k, self.next[lo:hi, 1:-1],
        )

    def advance(self):
        last = self.field.shape[0] - 2
        self.halo.start(self.field)
        with self.stream:
            self._update(2, last)
        self.halo.finish(self.field)
        with self.stream:
            self._update(1, 2)
            self._update(last, last + 1)
        self.field, self.next = self.next, self.field

    def total(self):
        with self.stream:
            return float(self.field[1:-1].sum())


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    solver = Solver(comm, rows=512, width=2048)
    for _ in range(500):
        solver.advance()
    heat = comm.allreduce(solver.total())
    if comm.Get_rank() == 0:
        print(heat)


if __name__ == "__main__":
    main()
