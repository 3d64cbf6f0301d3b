"""1-D decomposed heat equation with CUDA-aware MPI halo exchange and interior overlap."""
import cupy as cp
from mpi4py import MPI


class HeatField:
    def __init__(self, comm, rows, cols, alpha=0.1):
        self.comm, self.alpha = comm, cp.float32(alpha)
        self.up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
        self.down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
        self.edge = cp.cuda.Stream(non_blocking=True)
        self.bulk = cp.cuda.Stream(non_blocking=True)
        self.edge_done = cp.cuda.Event(disable_timing=True)
        self.bulk_done = cp.cuda.Event(disable_timing=True)
        self.u = cp.random.rand(rows + 2, cols).astype(cp.float32)
        self.v = self.u.copy()
        self.send = cp.zeros((2, cols), cp.float32)
        self.recv = cp.zeros((2, cols), cp.float32)
        cp.cuda.Device().synchronize()

    def _update(self, lo, hi):
        u = self.u
        lap = u[lo - 1:hi - 1] + u[lo + 1:hi + 1] - 2 * u[lo:hi]
        self.v[lo:hi] = u[lo:hi] + self.alpha * lap

    def _post(self):
        c = self.comm
        return [c.Irecv(self.recv[0], self.up, 1), c.Irecv(self.recv[1], self.down, 0),
                c.Isend(self.send[0], self.up, 0), c.Isend(self.send[1], self.down, 1)]

    def step(self):
        n = self.u.shape[0]
        self.edge.wait_event(self.bulk_done)
        with self.edge:
            self.send[0] = self.u[1]
            self.send[1] = self.u[-2]
        self.edge.synchronize()
        requests = self._post()
        with self.bulk:
            self._update(2, n - 2)
        MPI.Request.Waitall(requests)
        with self.edge:
            self.u[0] = self.recv[0]
            self.u[-1] = self.recv[1]
            self._update(1, 2)
            self._update(n - 2, n - 1)
            self.edge_done.record(self.edge)
        self.bulk.wait_event(self.edge_done)
        self.bulk_done.record(self.bulk)
        self.u, self.v = self.v, self.u

    def total(self):
        with self.bulk:
            local = float(self.u[1:-1].sum())
        return self.comm.allreduce(local)


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    field = HeatField(comm, 512, 2048)
    for _ in range(100):
        field.step()
    total = field.total()
    if comm.rank == 0:
        print(total)


if __name__ == "__main__":
    main()
