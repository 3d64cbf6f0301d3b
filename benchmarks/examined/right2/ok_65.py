"""Jacobi sweeps with CUDA-aware halo exchange."""
import cupy as cp
import numpy as np
from mpi4py import MPI

jacobi_rows = cp.RawKernel(
    r"""
extern "C" __global__ void jacobi_rows(const float *u, float *v, int first, int last, int nx) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = first + blockIdx.y;
    if (i > last || j < 1 || j >= nx - 1) return;
    v[i * nx + j] = 0.25f * (u[(i - 1) * nx + j] + u[(i + 1) * nx + j]
                           + u[i * nx + j - 1] + u[i * nx + j + 1]);
}
""",
    "jacobi_rows",
)


class SlabSolver:
    def __init__(self, comm, ny, nx):
        self.comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self.down = rank - 1 if rank else MPI.PROC_NULL
        self.up = rank + 1 if rank + 1 < size else MPI.PROC_NULL
        self.ny, self.nx = ny, nx
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.u = cp.full((ny + 2, nx), rank, dtype=cp.float32)
            self.v = self.u.copy()
            self.send = cp.zeros((2, nx), dtype=cp.float32)
            self.recv = cp.zeros((2, nx), dtype=cp.float32)

    def _rows(self, first, last):
        grid = ((self.nx + 127) // 128, last - first + 1)
        args = (self.u, self.v, np.int32(first), np.int32(last), np.int32(self.nx))
        with self.stream:
            jacobi_rows(grid, (128,), args)

    def sweep(self):
        with self.stream:
            self.send[0] = self.u[1]
            self.send[1] = self.u[self.ny]
        self.stream.synchronize()
        requests = [
            self.comm.Irecv(self.recv[0], source=self.down, tag=1),
            self.comm.Irecv(self.recv[1], source=self.up, tag=2),
            self.comm.Isend(self.send[1], dest=self.up, tag=1),
            self.comm.Isend(self.send[0], dest=self.down, tag=2),
        ]
        self._rows(2, self.ny - 1)
        MPI.Request.Waitall(requests)
        with self.stream:
            if self.down != MPI.PROC_NULL:
                self.u[0] = self.recv[0]
            if self.up != MPI.PROC_NULL:
                self.u[self.ny + 1] = self.recv[1]
        self._rows(1, 1)
        self._rows(self.ny, self.ny)
        self.u, self.v = self.v, self.u

    def residual(self):
        with self.stream:
            local = float(cp.abs(self.u - self.v)[1:-1].max())
        return self.comm.allreduce(local, op=MPI.MAX)


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    solver = SlabSolver(comm, 512, 1024)
    for step in range(400):
        solver.sweep()
    return solver.residual()


if __name__ == "__main__":
    print(main())
