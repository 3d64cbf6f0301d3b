"""2-D diffusion on several ranks with CUDA-aware MPI halo exchange."""
import cupy as cp
import numpy as np
from mpi4py import MPI

laplace = cp.ElementwiseKernel(
    "raw float32 u, int32 width, float32 k",
    "float32 out",
    """
    int c = i % width;
    if (c == 0 || c == width - 1) { out = u[i + width]; }
    else {
        int j = i + width;
        out = u[j] + k * (u[j - 1] + u[j + 1] + u[j - width] + u[j + width] - 4.f * u[j]);
    }
    """,
    "laplace",
)


class Slab:
    def __init__(self, rows, cols, comm):
        self.comm = comm
        self.rows, self.cols = rows, cols
        self.up = (comm.rank - 1) % comm.size
        self.down = (comm.rank + 1) % comm.size
        cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.u = cp.zeros((rows + 2, cols), dtype=cp.float32)
            self.u[1:-1] = cp.random.random((rows, cols), dtype=cp.float32)
            self.send_up = cp.empty(cols, dtype=cp.float32)
            self.send_down = cp.empty(cols, dtype=cp.float32)
            self.recv_up = cp.empty(cols, dtype=cp.float32)
            self.recv_down = cp.empty(cols, dtype=cp.float32)
        self.stream.synchronize()

    def pack(self):
        with self.stream:
            cp.copyto(self.send_up, self.u[1])
            cp.copyto(self.send_down, self.u[-2])

    def unpack(self):
        with self.stream:
            cp.copyto(self.u[0], self.recv_up)
            cp.copyto(self.u[-1], self.recv_down)

    def exchange(self):
        self.pack()
        requests = [
            self.comm.Irecv([self.recv_up, MPI.FLOAT], source=self.up, tag=2),
            self.comm.Irecv([self.recv_down, MPI.FLOAT], source=self.down, tag=1),
            self.comm.Isend([self.send_up, MPI.FLOAT], dest=self.up, tag=1),
            self.comm.Isend([self.send_down, MPI.FLOAT], dest=self.down, tag=2),
        ]
        MPI.Request.Waitall(requests)
        self.unpack()

    def update(self, k):
        with self.stream:
            flat = laplace(
                self.u.ravel(), np.int32(self.cols), np.float32(k),
                size=self.rows * self.cols,
            )
            new = flat.reshape(self.rows, self.cols)
            change = cp.abs(new - self.u[1:-1]).max()
            self.u[1:-1] = new
            return float(change)


def main(rows=2048, cols=4096, steps=500, tol=1e-5):
    comm = MPI.COMM_WORLD
    slab = Slab(rows, cols, comm)
    for step in range(steps):
        slab.exchange()
        local = slab.update(0.2)
        biggest = comm.allreduce(local, op=MPI.MAX)
        if biggest < tol:
            break
    if comm.rank == 0:
        print("steps", step + 1, "change", biggest)


if __name__ == "__main__":
    main()
