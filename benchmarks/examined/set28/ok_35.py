"""Jacobi smoother: host-staged halo exchange overlapped with the interior update."""
import numpy as np
from mpi4py import MPI
from numba import cuda


@cuda.jit
def sweep(u, lo, hi, out):
    i, j = cuda.grid(2)
    i += lo
    if i < hi and 0 < j < u.shape[1] - 1:
        out[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@cuda.jit
def pack_row(u, row, buf):
    j = cuda.grid(1)
    if j < buf.size:
        buf[j] = u[row, j]


@cuda.jit
def unpack_row(buf, row, u):
    j = cuda.grid(1)
    if j < buf.size:
        u[row, j] = buf[j]


class Face:
    def __init__(self, n, peer, inner, ghost, tag_out, tag_in):
        self.peer, self.inner, self.ghost = peer, inner, ghost
        self.tag_out, self.tag_in = tag_out, tag_in
        self.d_send = cuda.device_array(n, np.float32)
        self.d_recv = cuda.device_array(n, np.float32)
        self.h_send = cuda.pinned_array(n, np.float32)
        self.h_recv = cuda.pinned_array(n, np.float32)


class HaloSmoother:
    def __init__(self, comm, rows, cols):
        self.comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        up = rank - 1 if rank > 0 else MPI.PROC_NULL
        down = rank + 1 if rank + 1 < size else MPI.PROC_NULL
        self.rows, self.cols = rows, cols
        self.interior = cuda.stream()
        self.halo = cuda.stream()
        u = np.random.default_rng(rank).random((rows + 2, cols), dtype=np.float32)
        self.u = cuda.to_device(u)
        self.v = cuda.to_device(u)
        self.faces = [
            Face(cols, up, 1, 0, tag_out=0, tag_in=1),
            Face(cols, down, rows, rows + 1, tag_out=1, tag_in=0),
        ]
        self.block = (8, 32)
        self.line = (cols + 127) // 128
        self.swept = cuda.event(timing=False)
        self.filled = cuda.event(timing=False)
        cuda.synchronize()

    def _grid(self, rows):
        return ((rows + 7) // 8, (self.cols + 31) // 32)

    def _exchange(self):
        for face in self.faces:
            pack_row[self.line, 128, self.halo](self.u, face.inner, face.d_send)
            face.d_send.copy_to_host(face.h_send, stream=self.halo)
        self.halo.synchronize()
        requests = [
            self.comm.Irecv(face.h_recv, source=face.peer, tag=face.tag_in) for face in self.faces
        ]
        for face in self.faces:
            requests.append(self.comm.Isend(face.h_send, dest=face.peer, tag=face.tag_out))
        MPI.Request.Waitall(requests)
        for face in self.faces:
            if face.peer != MPI.PROC_NULL:
                face.d_recv.copy_to_device(face.h_recv, stream=self.halo)
                unpack_row[self.line, 128, self.halo](face.d_recv, face.ghost, self.u)

    def smooth(self):
        self.swept.wait(self.halo)
        sweep[self._grid(self.rows - 2), self.block, self.interior](
            self.u, 2, self.rows, self.v
        )
        self._exchange()
        self.filled.record(self.halo)
        self.filled.wait(self.interior)
        for row in (1, self.rows):
            sweep[self._grid(1), self.block, self.interior](self.u, row, row + 1, self.v)
        self.swept.record(self.interior)
        self.u, self.v = self.v, self.u

    def residual(self):
        self.interior.synchronize()
        self.halo.synchronize()
        u = self.u.copy_to_host()
        v = self.v.copy_to_host()
        local = float(np.abs(u[1:-1] - v[1:-1]).max())
        return self.comm.allreduce(local, op=MPI.MAX)


def main():
    comm = MPI.COMM_WORLD
    cuda.select_device(comm.Get_rank() % len(cuda.gpus))
    smoother = HaloSmoother(comm, rows=2048, cols=4096)
    for it in range(200):
        smoother.smooth()
    print(comm.Get_rank(), smoother.residual())


if __name__ == "__main__":
    main()
