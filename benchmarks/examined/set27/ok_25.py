"""2D Jacobi with the interior overlapped with the exchange of the boundary rows."""
import argparse

import cupy as cp
import numpy as np
from mpi4py import MPI

JACOBI = cp.RawKernel(r"""
extern "C" __global__
void jacobi(float* a_new, const float* a, int row_begin, int row_end, int nx) {
    int col = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int row = blockIdx.y * blockDim.y + threadIdx.y + row_begin;
    if (row < row_end && col < nx - 1)
        a_new[row * nx + col] = 0.25f * (a[row * nx + col + 1] + a[row * nx + col - 1]
                                       + a[(row + 1) * nx + col] + a[(row - 1) * nx + col]);
}
""", "jacobi")


class JacobiSolver:
    def __init__(self, comm, nx, ny):
        self.comm = comm
        self.nx = nx
        self.rows = ny // comm.size
        self.top = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
        self.bottom = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.halo = cp.cuda.Stream(non_blocking=True)
        self.inner_done = cp.cuda.Event(disable_timing=True)
        self.a = cp.zeros((self.rows + 2, nx), dtype=cp.float32)
        self.a[:, 0] = 1.0
        self.a[:, -1] = 1.0
        self.a_new = self.a.copy()
        cp.cuda.Device().synchronize()

    def _launch(self, begin, end):
        block = (32, 4)
        grid = ((self.nx - 2 + 31) // 32, (end - begin + 3) // 4)
        JACOBI(grid, block, (self.a_new, self.a, np.int32(begin), np.int32(end), np.int32(self.nx)))

    def step(self):
        last = self.rows
        self.halo.wait_event(self.inner_done)
        with self.halo:
            self._launch(1, 2)
            self._launch(last, last + 1)
        with self.compute:
            self._launch(2, last)
            self.inner_done.record(self.compute)

        self.halo.synchronize()
        self.comm.Sendrecv(self.a_new[1], dest=self.top, sendtag=0,
                           recvbuf=self.a_new[last + 1], source=self.bottom, recvtag=0)
        self.comm.Sendrecv(self.a_new[last], dest=self.bottom, sendtag=1,
                           recvbuf=self.a_new[0], source=self.top, recvtag=1)
        self.a, self.a_new = self.a_new, self.a

    def norm(self):
        self.compute.synchronize()
        with self.compute:
            local = cp.square(self.a[1:-1] - self.a_new[1:-1]).sum().get(stream=self.compute)
        self.compute.synchronize()
        return float(np.sqrt(self.comm.allreduce(float(local))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nx", type=int, default=8192)
    parser.add_argument("--ny", type=int, default=8192)
    parser.add_argument("--iters", type=int, default=1000)
    parser.add_argument("--nccheck", type=int, default=100)
    args = parser.parse_args()

    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    solver = JacobiSolver(comm, args.nx, args.ny)
    for it in range(args.iters):
        solver.step()
        if it % args.nccheck == 0:
            value = solver.norm()
            if comm.rank == 0:
                print(f"{it:5d}, {value:0.6f}")


if __name__ == "__main__":
    main()
