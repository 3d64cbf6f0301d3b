"""Halo exchange over CUDA-aware MPI while the interior is still being computed."""
from typing import Tuple

import cupy as cp
import numpy as np
from mpi4py import MPI

_step = cp.ElementwiseKernel(
    "T below, T here, T above, float32 c",
    "T out",
    "out = here + c * (below - 2 * here + above)",
    "diffuse",
)


class DiffusionRank:
    """Rows are split over ranks; the first and last row of a rank are its boundary."""

    def __init__(self, comm: MPI.Comm, rows: int, cols: int, c: float = 0.2):
        self.comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self.low = rank - 1 if rank else MPI.PROC_NULL
        self.high = rank + 1 if rank < size - 1 else MPI.PROC_NULL
        self.c = np.float32(c)
        self.interior = cp.cuda.Stream(non_blocking=True)
        self.boundary = cp.cuda.Stream(non_blocking=True)
        self.field = cp.random.RandomState(rank).standard_normal((rows, cols), dtype=np.float32)
        self.next = cp.empty_like(self.field)
        self.send = cp.empty((2, cols), dtype=cp.float32)
        self.recv = cp.zeros((2, cols), dtype=cp.float32)
        cp.cuda.Device().synchronize()

    def _exchange(self) -> None:
        with self.boundary:
            self.send[0] = self.field[0]
            self.send[1] = self.field[-1]
            packed = self.boundary.record()
        packed.synchronize()
        requests = [
            self.comm.Irecv([self.recv[0], MPI.FLOAT], source=self.low, tag=1),
            self.comm.Irecv([self.recv[1], MPI.FLOAT], source=self.high, tag=2),
            self.comm.Isend([self.send[0], MPI.FLOAT], dest=self.low, tag=2),
            self.comm.Isend([self.send[1], MPI.FLOAT], dest=self.high, tag=1),
        ]
        MPI.Request.Waitall(requests)

    def advance(self) -> None:
        with self.interior:
            f = self.field
            _step(f[:-2], f[1:-1], f[2:], self.c, self.next[1:-1])
        self._exchange()
        with self.boundary:
            f = self.field
            _step(self.recv[0], f[0], f[1], self.c, self.next[0])
            _step(f[-2], f[-1], self.recv[1], self.c, self.next[-1])
        interior_done, boundary_done = self.interior.record(), self.boundary.record()
        self.interior.wait_event(boundary_done)
        self.boundary.wait_event(interior_done)
        self.field, self.next = self.next, self.field

    def energy(self) -> float:
        with self.boundary:
            local = float((self.field * self.field).sum(dtype=cp.float64).get())
        return self.comm.allreduce(local, op=MPI.SUM)


def main() -> Tuple[float, float]:
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    sim = DiffusionRank(comm, rows=8192, cols=4096)
    before = sim.energy()
    for _ in range(100):
        sim.advance()
    after = sim.energy()
    if comm.Get_rank() == 0:
        print(before, after)
    return before, after


if __name__ == "__main__":
    main()
