import cupy as cp
from mpi4py import MPI


class HaloHeat:
    """Row-decomposed heat equation; ghost rows travel while the interior runs."""

    def __init__(self, comm, rows, cols):
        self.comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self.up = rank - 1 if rank > 0 else MPI.PROC_NULL
        self.down = rank + 1 if rank + 1 < size else MPI.PROC_NULL
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.edge = cp.cuda.Stream(non_blocking=True)
        self.updated = cp.cuda.Event(disable_timing=True)
        self.ghosts = cp.cuda.Event(disable_timing=True)
        with self.compute:
            self.u = cp.zeros((rows + 2, cols), cp.float64)
            self.u[rows // 2, cols // 2] = 1000.0 * (rank + 1)
            self.v = self.u.copy()
            self.out = cp.zeros((2, cols))
            self.inc = cp.zeros((2, cols))
            self.updated.record(self.compute)

    def _relax(self, lo, hi):
        u, v = self.u, self.v
        v[lo:hi, 1:-1] = 0.25 * (u[lo - 1 : hi - 1, 1:-1] + u[lo + 1 : hi + 1, 1:-1] + u[lo:hi, :-2] + u[lo:hi, 2:])

    def step(self):
        u = self.u
        self.edge.wait_event(self.updated)
        with self.edge:
            self.out[0] = u[1]
            self.out[1] = u[-2]
        with self.compute:
            self._relax(2, u.shape[0] - 2)
        self.edge.synchronize()
        requests = [
            self.comm.Irecv(self.inc[0], source=self.up, tag=1),
            self.comm.Irecv(self.inc[1], source=self.down, tag=0),
            self.comm.Isend(self.out[0], dest=self.up, tag=0),
            self.comm.Isend(self.out[1], dest=self.down, tag=1),
        ]
        MPI.Request.Waitall(requests)
        with self.edge:
            u[0] = self.inc[0]
            u[-1] = self.inc[1]
            self.ghosts.record(self.edge)
        self.compute.wait_event(self.ghosts)
        with self.compute:
            self._relax(1, 2)
            self._relax(u.shape[0] - 2, u.shape[0] - 1)
            self.updated.record(self.compute)
        self.u, self.v = self.v, self.u

    def total(self):
        with self.compute:
            local = float(self.u[1:-1].sum())
        return self.comm.allreduce(local, op=MPI.SUM)


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    heat = HaloHeat(comm, 256, 1024)
    for k in range(200):
        heat.step()
        if k % 50 == 0:
            total = heat.total()
            if comm.Get_rank() == 0:
                print(k, total)


if __name__ == "__main__":
    main()
