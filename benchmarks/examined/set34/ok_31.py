"""Heat equation on slabs with CUDA-aware MPI halo exchange."""
import cupy as cp
import numpy as np
from mpi4py import MPI

_PACK = cp.RawKernel(
    r"""
extern "C" __global__
void pack(const double* u, double* lo, double* hi, int rows, int n) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= n) return;
    lo[c] = u[n + c];
    hi[c] = u[(rows - 2) * n + c];
}
""",
    "pack",
)

_UNPACK = cp.RawKernel(
    r"""
extern "C" __global__
void unpack(double* u, const double* lo, const double* hi, int rows, int n) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= n) return;
    u[c] = lo[c];
    u[(rows - 1) * n + c] = hi[c];
}
""",
    "unpack",
)

_DIFFUSE = cp.RawKernel(
    r"""
extern "C" __global__
void diffuse(const double* u, double* v, int first, int last, int n, double k) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = first + blockIdx.y;
    if (r >= last || c == 0 || c >= n - 1) return;
    int i = r * n + c;
    v[i] = u[i] + k * (u[i - n] + u[i + n] + u[i - 1] + u[i + 1] - 4.0 * u[i]);
}
""",
    "diffuse",
)


class HeatSlab:
    def __init__(self, comm: MPI.Comm, rows: int, n: int):
        self.comm = comm
        self.rows, self.n = rows + 2, n
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.u = cp.random.rand(self.rows, n)
            self.v = self.u.copy()
            self.send = cp.zeros((2, n))
            self.recv = cp.zeros((2, n))
        self.below = (comm.rank - 1) % comm.size
        self.above = (comm.rank + 1) % comm.size
        self.line = ((n + 127) // 128,)

    def _kernel_rows(self, first: int, last: int) -> None:
        grid = (self.line[0], last - first)
        args = (self.u, self.v, np.int32(first), np.int32(last), np.int32(self.n), np.float64(0.2))
        _DIFFUSE(grid, (128,), args)

    def step(self) -> None:
        size = (np.int32(self.rows), np.int32(self.n))
        with self.stream:
            _PACK(self.line, (128,), (self.u, self.send[0], self.send[1]) + size)
            self.stream.synchronize()
            requests = [
                self.comm.Irecv(self.recv[0], source=self.below, tag=1),
                self.comm.Irecv(self.recv[1], source=self.above, tag=0),
                self.comm.Isend(self.send[0], dest=self.below, tag=0),
                self.comm.Isend(self.send[1], dest=self.above, tag=1),
            ]
            self._kernel_rows(2, self.rows - 2)
            MPI.Request.Waitall(requests)
            _UNPACK(self.line, (128,), (self.u, self.recv[0], self.recv[1]) + size)
            self._kernel_rows(1, 2)
            self._kernel_rows(self.rows - 2, self.rows - 1)
        self.u, self.v = self.v, self.u

    def total(self) -> float:
        with self.stream:
            local = float(self.u[1:-1].sum())
        return self.comm.allreduce(local)


def main(steps: int = 500) -> None:
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    slab = HeatSlab(comm, 1024, 4096)
    for step in range(steps):
        slab.step()
        if step % 100 == 0:
            value = slab.total()
            if comm.rank == 0:
                print(step, value)


if __name__ == "__main__":
    main()
