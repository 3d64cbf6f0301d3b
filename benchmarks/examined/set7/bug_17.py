import math

import cupy as cp
import numpy as np
from mpi4py import MPI

_copy_src = r"""
extern "C" __global__
void copy_guard_cells(const double* field, double* buf_l, double* buf_r,
                      const int nz, const int nr, const int ng)
{
    int iz = blockIdx.x * blockDim.x + threadIdx.x;
    int ir = blockIdx.y * blockDim.y + threadIdx.y;
    if (iz < ng && ir < nr) {
        buf_l[iz * nr + ir] = field[(ng + iz) * nr + ir];
        buf_r[iz * nr + ir] = field[(nz - 2 * ng + iz) * nr + ir];
    }
}
extern "C" __global__
void set_guard_cells(double* field, const double* buf_l, const double* buf_r,
                     const int nz, const int nr, const int ng)
{
    int iz = blockIdx.x * blockDim.x + threadIdx.x;
    int ir = blockIdx.y * blockDim.y + threadIdx.y;
    if (iz < ng && ir < nr) {
        field[iz * nr + ir] = buf_l[iz * nr + ir];
        field[(nz - ng + iz) * nr + ir] = buf_r[iz * nr + ir];
    }
}
"""
_module = cp.RawModule(code=_copy_src)
copy_guard_cells = _module.get_function("copy_guard_cells")
set_guard_cells = _module.get_function("set_guard_cells")


class BufferHandler:
    def __init__(self, n_guard: int, nr: int):
        shape = (n_guard, nr)
        self.send_l, self.send_r, self.recv_l, self.recv_r = (
            cp.zeros(shape, dtype=np.float64) for _ in range(4)
        )


class BoundaryCommunicator:
    def __init__(self, nz: int, nr: int, n_guard: int, gpudirect: bool = True):
        self.comm = MPI.COMM_WORLD
        self.rank, self.size = self.comm.rank, self.comm.size
        self.left_proc = (self.rank - 1) % self.size
        self.right_proc = (self.rank + 1) % self.size
        self.nz, self.nr, self.n_guard = nz, nr, n_guard
        self.gpudirect = gpudirect
        self.buffers = BufferHandler(n_guard, nr)
        tpb = (8, 32)
        self.block = tpb
        self.grid = (math.ceil(n_guard / tpb[0]), math.ceil(nr / tpb[1]))

    def exchange_domains(self, send_left, send_right, recv_left, recv_right):
        req_rl = self.comm.Irecv(recv_left, source=self.left_proc, tag=2)
        req_rr = self.comm.Irecv(recv_right, source=self.right_proc, tag=1)
        req_sl = self.comm.Isend(send_left, dest=self.left_proc, tag=1)
        req_sr = self.comm.Isend(send_right, dest=self.right_proc, tag=2)
        MPI.Request.Waitall([req_rl, req_rr, req_sl, req_sr])

    def exchange_fields(self, field: cp.ndarray) -> None:
        b = self.buffers
        dims = (np.int32(self.nz), np.int32(self.nr), np.int32(self.n_guard))
        copy_guard_cells(self.grid, self.block, (field, b.send_l, b.send_r, *dims))
        if self.gpudirect:
            self.exchange_domains(b.send_l, b.send_r, b.recv_l, b.recv_r)
        else:
            recv_l, recv_r = np.empty_like(b.recv_l.get()), np.empty_like(b.recv_r.get())
            self.exchange_domains(b.send_l.get(), b.send_r.get(), recv_l, recv_r)
            b.recv_l.set(recv_l)
            b.recv_r.set(recv_r)
        set_guard_cells(self.grid, self.block, (field, b.recv_l, b.recv_r, *dims))


class Simulation:
    def __init__(self, nz: int, nr: int, n_guard: int = 16):
        self.field = cp.random.random((nz, nr))
        self.comm = BoundaryCommunicator(nz, nr, n_guard)

    def step(self, n: int) -> None:
        for _ in range(n):
            f = self.field
            f[1:-1] += 0.1 * (f[2:] - 2.0 * f[1:-1] + f[:-2])
            self.comm.exchange_fields(f)
