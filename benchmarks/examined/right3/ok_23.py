"""Heat equation on a ring of ranks with CUDA-aware MPI halos."""
import cupy as cp
from mpi4py import MPI

_STEP = cp.ElementwiseKernel(
    "T c, T n, T s, T w, T e, T k", "T out", "out = c + k * (n + s + w + e - 4 * c)", "heat_step"
)


class HaloExchanger:
    def __init__(self, comm: MPI.Comm, width: int, stream: cp.cuda.Stream):
        self.cart = comm.Create_cart([comm.size], periods=[True])
        self.up, self.down = self.cart.Shift(0, 1)
        self.stream = stream
        with stream:
            self.send = {side: cp.zeros(width) for side in ("up", "down")}
            self.recv = {side: cp.zeros(width) for side in ("up", "down")}

    def start(self, u: cp.ndarray) -> list:
        with self.stream:
            self.send["up"][...] = u[1]
            self.send["down"][...] = u[-2]
        self.stream.synchronize()
        return [
            self.cart.Irecv(self.recv["up"], source=self.up, tag=1),
            self.cart.Irecv(self.recv["down"], source=self.down, tag=0),
            self.cart.Isend(self.send["up"], dest=self.up, tag=0),
            self.cart.Isend(self.send["down"], dest=self.down, tag=1),
        ]

    def finish(self, reqs: list, u: cp.ndarray) -> None:
        MPI.Request.Waitall(reqs)
        with self.stream:
            u[0] = self.recv["up"]
            u[-1] = self.recv["down"]


class HeatSolver:
    def __init__(self, comm: MPI.Comm, rows: int, cols: int, k: float = 0.2):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.halo = HaloExchanger(comm, cols, self.stream)
        self.k = k
        with self.stream:
            self.u = cp.random.random((rows + 2, cols))
            self.v = cp.zeros_like(self.u)

    def _update(self, lo: int, hi: int) -> None:
        u = self.u
        with self.stream:
            self.v[lo:hi, 1:-1] = _STEP(
                u[lo:hi, 1:-1], u[lo - 1:hi - 1, 1:-1], u[lo + 1:hi + 1, 1:-1],
                u[lo:hi, :-2], u[lo:hi, 2:], self.k,
            )

    def step(self) -> None:
        rows = self.u.shape[0] - 2
        reqs = self.halo.start(self.u)
        self._update(2, rows)
        self.halo.finish(reqs, self.u)
        self._update(1, 2)
        self._update(rows, rows + 1)
        self.u, self.v = self.v, self.u

    def total(self) -> float:
        with self.stream:
            return float(self.u[1:-1].sum())


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    solver = HeatSolver(comm, 512, 1024)
    for _ in range(100):
        solver.step()
    print(comm.rank, comm.allreduce(solver.total()))


if __name__ == "__main__":
    main()
