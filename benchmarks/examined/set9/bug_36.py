import numpy as np
from mpi4py import MPI
from numba import cuda


@cuda.jit
def copy_vec_to_gpu_buffer(vec_buffer_l, vec_buffer_r, grid_r, grid_t, grid_z, m, copy_left, copy_right, nz_start, nz_end):
    iz, ir = cuda.grid(2)
    n = vec_buffer_l.shape[1]
    if iz < n and ir < grid_r.shape[1]:
        if copy_left:
            vec_buffer_l[3 * m + 0, iz, ir] = grid_r[nz_start + iz, ir]
            vec_buffer_l[3 * m + 1, iz, ir] = grid_t[nz_start + iz, ir]
            vec_buffer_l[3 * m + 2, iz, ir] = grid_z[nz_start + iz, ir]
        if copy_right:
            vec_buffer_r[3 * m + 0, iz, ir] = grid_r[nz_end - n + iz, ir]
            vec_buffer_r[3 * m + 1, iz, ir] = grid_t[nz_end - n + iz, ir]
            vec_buffer_r[3 * m + 2, iz, ir] = grid_z[nz_end - n + iz, ir]


@cuda.jit
def replace_vec_from_gpu_buffer(vec_buffer_l, vec_buffer_r, grid_r, grid_t, grid_z, m, copy_left, copy_right, nz):
    iz, ir = cuda.grid(2)
    n = vec_buffer_l.shape[1]
    if iz < n and ir < grid_r.shape[1]:
        if copy_left:
            grid_r[iz, ir] = vec_buffer_l[3 * m + 0, iz, ir]
            grid_t[iz, ir] = vec_buffer_l[3 * m + 1, iz, ir]
            grid_z[iz, ir] = vec_buffer_l[3 * m + 2, iz, ir]
        if copy_right:
            grid_r[nz - n + iz, ir] = vec_buffer_r[3 * m + 0, iz, ir]
            grid_t[nz - n + iz, ir] = vec_buffer_r[3 * m + 1, iz, ir]
            grid_z[nz - n + iz, ir] = vec_buffer_r[3 * m + 2, iz, ir]


class BoundaryCommunicator(object):
    def __init__(self, Nz, Nr, Nm, n_guard):
        self.mpi_comm = MPI.COMM_WORLD
        self.rank, self.size = self.mpi_comm.rank, self.mpi_comm.size
        self.left_proc = self.rank - 1 if self.rank > 0 else None
        self.right_proc = self.rank + 1 if self.rank < self.size - 1 else None
        self.Nz, self.Nr, self.Nm, self.n_guard = Nz, Nr, Nm, n_guard
        shape = (3 * Nm, n_guard, Nr)
        self.d_vec_send_l = cuda.device_array(shape, dtype=np.complex128)
        self.d_vec_send_r = cuda.device_array(shape, dtype=np.complex128)
        self.d_vec_recv_l = cuda.device_array(shape, dtype=np.complex128)
        self.d_vec_recv_r = cuda.device_array(shape, dtype=np.complex128)

    def exchange_fields(self, interp, fieldtype):
        self.handle_vec_buffer(interp, fieldtype, before=True)
        self.exchange_domains(self.d_vec_send_l, self.d_vec_send_r, self.d_vec_recv_l, self.d_vec_recv_r)
        self.handle_vec_buffer(interp, fieldtype, before=False)

    def handle_vec_buffer(self, interp, fieldtype, before):
        left, right = self.left_proc is not None, self.right_proc is not None
        tpb = (16, 16)
        bpg = ((self.n_guard + 15) // 16, (self.Nr + 15) // 16)
        for m in range(self.Nm):
            fields = [getattr(interp[m], fieldtype + c) for c in "rtz"]
            if before:
                copy_vec_to_gpu_buffer[bpg, tpb](
                    self.d_vec_send_l, self.d_vec_send_r, *fields, m, left, right,
                    self.n_guard, self.Nz - self.n_guard)
            else:
                replace_vec_from_gpu_buffer[bpg, tpb](
                    self.d_vec_recv_l, self.d_vec_recv_r, *fields, m, left, right, self.Nz)

    def exchange_domains(self, send_left, send_right, recv_left, recv_right):
        requests = []
        if self.left_proc is not None:
            requests.append(self.mpi_comm.Isend(send_left, dest=self.left_proc, tag=1))
            requests.append(self.mpi_comm.Irecv(recv_left, source=self.left_proc, tag=2))
        if self.right_proc is not None:
            requests.append(self.mpi_comm.Isend(send_right, dest=self.right_proc, tag=2))
            requests.append(self.mpi_comm.Irecv(recv_right, source=self.right_proc, tag=1))
        MPI.Request.Waitall(requests)
