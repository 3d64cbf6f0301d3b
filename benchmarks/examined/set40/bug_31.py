"""1-D decomposed heat equation; halo rows travel over NCCL (CuPy + mpi4py)."""
import cupy as cp
import numpy as np
from cupy.cuda import nccl
from mpi4py import MPI

stencil = cp.ElementwiseKernel(
    "raw float32 u, int32 nx, float32 c", "float32 out",
    """
    int y = i / nx + 1, x = i % nx;
    int xl = x > 0 ? x - 1 : 0, xr = x < nx - 1 ? x + 1 : nx - 1;
    float m = u[y * nx + x];
    out = m + c * (u[(y - 1) * nx + x] + u[(y + 1) * nx + x]
                   + u[y * nx + xl] + u[y * nx + xr] - 4.0f * m);
    """,
    "heat_stencil",
)


class Halo:
    def __init__(self, comm, nx):
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        uid = nccl.get_unique_id() if self.rank == 0 else None
        uid = comm.bcast(uid, root=0)
        self.nccl = nccl.NcclCommunicator(self.size, uid, self.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.packed = cp.cuda.Event(disable_timing=True)
        self.nx = nx

    def _pair(self, send, recv, peer):
        kind = nccl.NCCL_FLOAT32
        self.nccl.send(send.data.ptr, self.nx, kind, peer, self.stream.ptr)
        self.nccl.recv(recv.data.ptr, self.nx, kind, peer, self.stream.ptr)

    def exchange(self, u, compute):
        self.packed.record(compute)
        self.stream.wait_event(self.packed)
        nccl.groupStart()
        if self.rank > 0:
            self._pair(u[1], u[0], self.rank - 1)
        if self.rank < self.size - 1:
            self._pair(u[-2], u[-1], self.rank + 1)
        nccl.groupEnd()


class Heat:
    def __init__(self, comm, rows, nx, c=0.2):
        self.comm = comm
        self.rows, self.nx = rows, nx
        self.c = np.float32(c)
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.halo = Halo(comm, nx)
        with self.compute:
            self.u = cp.zeros((rows + 2, nx), dtype=cp.float32)
            self.next = cp.zeros((rows + 2, nx), dtype=cp.float32)
            if comm.Get_rank() == 0:
                self.u[1, :] = 100.0

    def step(self):
        self.halo.exchange(self.u, self.compute)
        with self.compute:
            inner = self.next[1:-1].reshape(-1)
            stencil(self.u, np.int32(self.nx), self.c, inner)
        self.u, self.next = self.next, self.u

    def total(self):
        with self.compute:
            s = self.u[1:-1].sum(dtype=cp.float64)
        self.compute.synchronize()
        return self.comm.allreduce(float(s.get()), op=MPI.SUM)


def main(rows=4096, nx=4096, steps=500):
    comm = MPI.COMM_WORLD
    ndev = cp.cuda.runtime.getDeviceCount()
    cp.cuda.Device(comm.Get_rank() % ndev).use()
    sim = Heat(comm, rows, nx)
    for k in range(steps):
        sim.step()
        if k % 100 == 99:
            t = sim.total()
            if comm.Get_rank() == 0:
                print(f"step {k + 1}: heat {t:.3f}")


if __name__ == "__main__":
    main()
