import cupy as cp
import numpy as np
from mpi4py import MPI


def laplace_rows(u: cp.ndarray, lo: int, hi: int) -> cp.ndarray:
    c = u[lo:hi, 1:-1]
    return c + 0.2 * (u[lo - 1 : hi - 1, 1:-1] + u[lo + 1 : hi + 1, 1:-1] + u[lo:hi, :-2] + u[lo:hi, 2:] - 4.0 * c)


class Slab:
    """Row slab of a 2-D field with one ghost row above and below."""

    def __init__(self, comm: MPI.Comm, rows: int, cols: int) -> None:
        self.comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self.up = rank - 1 if rank > 0 else MPI.PROC_NULL
        self.down = rank + 1 if rank < size - 1 else MPI.PROC_NULL
        self.edge = cp.cuda.Stream(non_blocking=True)
        self.bulk = cp.cuda.Stream(non_blocking=True)
        self.u = cp.zeros((rows + 2, cols), dtype=cp.float64)
        if rank == 0:
            self.u[0] = 1.0
        self.v = self.u.copy()
        self.send = {k: cp.zeros(cols) for k in ("up", "down")}
        self.recv = {k: cp.zeros(cols) for k in ("up", "down")}
        cp.cuda.get_current_stream().synchronize()

    def _post(self) -> list[MPI.Request]:
        self.edge.synchronize()
        return [
            self.comm.Irecv(self.recv["up"], source=self.up, tag=1),
            self.comm.Irecv(self.recv["down"], source=self.down, tag=2),
            self.comm.Isend(self.send["up"], dest=self.up, tag=2),
            self.comm.Isend(self.send["down"], dest=self.down, tag=1),
        ]

    def step(self) -> None:
        u, v = self.u, self.v
        with self.edge:
            v[1, 1:-1] = laplace_rows(u, 1, 2)[0]
            v[-2, 1:-1] = laplace_rows(u, u.shape[0] - 2, u.shape[0] - 1)[0]
            self.send["up"][:] = v[1]
            self.send["down"][:] = v[-2]
        with self.bulk:
            v[2:-2, 1:-1] = laplace_rows(u, 2, u.shape[0] - 2)
        requests = self._post()
        MPI.Request.Waitall(requests)
        with self.edge:
            if self.up != MPI.PROC_NULL:
                v[0] = self.recv["up"]
            if self.down != MPI.PROC_NULL:
                v[-1] = self.recv["down"]
        edge_done, bulk_done = self.edge.record(), self.bulk.record()
        self.edge.wait_event(bulk_done)
        self.bulk.wait_event(edge_done)
        self.u, self.v = v, u

    def total(self) -> float:
        with self.bulk:
            local = float(self.u[1:-1].sum())
        return self.comm.allreduce(local)


def main() -> None:
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    slab = Slab(comm, 256, 1024)
    for _ in range(200):
        slab.step()
    value = slab.total()
    if comm.Get_rank() == 0:
        print(np.round(value, 6))


if __name__ == "__main__":
    main()
