"""Host-staged reductions for an MPI without GPU support."""
import cupy as cp
import numpy as np
from mpi4py import MPI


class HostStagedComm:
    """Presents array reductions on device arrays over a plain communicator."""

    def __init__(self, comm: MPI.Comm):
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size

    def sum(self, array) -> None:
        if isinstance(array, np.ndarray):
            self.comm.Allreduce(MPI.IN_PLACE, array, op=MPI.SUM)
            return
        host = array.get()
        self.comm.Allreduce(MPI.IN_PLACE, host, op=MPI.SUM)
        array.set(host)

    def max_scalar(self, value) -> float:
        return self.comm.allreduce(float(value), op=MPI.MAX)

    def broadcast(self, array: cp.ndarray, root: int = 0) -> None:
        host = array.get() if self.rank == root else np.empty(array.shape, array.dtype)
        self.comm.Bcast(host, root=root)
        if self.rank != root:
            array.set(host)


class PowerIteration:
    def __init__(self, comm: HostStagedComm, n: int, seed: int):
        self.comm = comm
        rows = n // comm.size
        rng = cp.random.default_rng(seed + comm.rank)
        self.block = rng.random((rows, n), dtype=cp.float64)
        self.offset = comm.rank * rows
        self.x = cp.ones(n)
        comm.broadcast(self.x)

    def iterate(self) -> float:
        y = cp.zeros_like(self.x)
        y[self.offset:self.offset + self.block.shape[0]] = self.block @ self.x
        self.comm.sum(y)
        norm = cp.linalg.norm(y)
        delta = self.comm.max_scalar(cp.abs(y / norm - self.x).max())
        self.x = y / norm
        return delta


def main():
    comm = HostStagedComm(MPI.COMM_WORLD)
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    solver = PowerIteration(comm, 1024, seed=7)
    for it in range(200):
        if solver.iterate() < 1e-9:
            break
    lead = float(solver.x[0])
    if comm.rank == 0:
        print(it, lead)


if __name__ == "__main__":
    main()
