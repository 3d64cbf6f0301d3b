import cupy as cp
import numpy as np
from mpi4py import MPI


def deps_synchronize(buf):
    if isinstance(buf, cp.ndarray):
        cp.cuda.get_current_stream().synchronize()


class DistributedArray:
    def __init__(self, global_shape, base_comm=MPI.COMM_WORLD, dtype=np.float64):
        self.base_comm = base_comm
        self.rank, self.size = base_comm.Get_rank(), base_comm.Get_size()
        rows = global_shape[0] // self.size + (self.rank < global_shape[0] % self.size)
        self.global_shape = global_shape
        self.local_array = cp.zeros((rows, *global_shape[1:]), dtype=dtype)

    def add_ghost_cells(self, front, back):
        local = self.local_array
        parts, reqs, keep = [], [], []
        recv_front = recv_back = None
        send_up = cp.ascontiguousarray(local[-front:]) if self.rank < self.size - 1 else None
        send_down = cp.ascontiguousarray(local[:back]) if self.rank > 0 else None
        if self.rank > 0:
            recv_front = cp.empty((front, *local.shape[1:]), dtype=local.dtype)
        if self.rank < self.size - 1:
            recv_back = cp.empty((back, *local.shape[1:]), dtype=local.dtype)
        deps_synchronize(local)

        if recv_front is not None:
            reqs.append(self.base_comm.Irecv(recv_front, source=self.rank - 1, tag=0))
            reqs.append(self.base_comm.Isend(send_down, dest=self.rank - 1, tag=1))
        if recv_back is not None:
            reqs.append(self.base_comm.Irecv(recv_back, source=self.rank + 1, tag=1))
            reqs.append(self.base_comm.Isend(send_up, dest=self.rank + 1, tag=0))
        keep.extend([send_up, send_down])
        MPI.Request.Waitall(reqs)

        if recv_front is not None:
            parts.append(recv_front)
        parts.append(local)
        if recv_back is not None:
            parts.append(recv_back)
        return cp.concatenate(parts)

    def dot(self, other):
        local = cp.vdot(self.local_array, other.local_array).reshape(1)
        total = cp.empty_like(local)
        deps_synchronize(local)
        self.base_comm.Allreduce(local, total, op=MPI.SUM)
        return float(total[0])


class SecondDerivative:
    def __init__(self, comm, step=1.0):
        self.comm = comm
        self.step = step

    def matvec(self, x):
        y = DistributedArray(x.global_shape, self.comm, x.local_array.dtype)
        ghost = x.add_ghost_cells(1, 1)
        inner = (ghost[2:] - 2 * ghost[1:-1] + ghost[:-2]) / self.step**2
        lo = 1 if x.rank == 0 else 0
        y.local_array[lo : lo + inner.shape[0]] = inner
        return y


def power_iteration(op, x, iters=50):
    for _ in range(iters):
        y = op.matvec(x)
        norm = y.dot(y) ** 0.5
        y.local_array /= norm
        x = y
    return x.dot(op.matvec(x))
