"""Slab-decomposed diffusion with CuPy arrays handed to a CUDA-aware MPI."""
import cupy as cp
from mpi4py import MPI

STEP = cp.ElementwiseKernel(
    "float64 up, float64 mid, float64 down, float64 left, float64 right, float64 k",
    "float64 out",
    "out = mid + k * (up + down + left + right - 4.0 * mid)",
    "diffuse_step",
)


class Slab:
    def __init__(self, comm, rows, cols):
        self.comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self.up = rank - 1 if rank > 0 else MPI.PROC_NULL
        self.down = rank + 1 if rank + 1 < size else MPI.PROC_NULL
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.a = cp.zeros((rows + 2, cols), dtype=cp.float64)
            self.b = cp.zeros_like(self.a)
            if rank == size // 2:
                self.a[rows // 2, cols // 4:cols // 2] = 100.0
            self.edges = cp.zeros((4, cols), dtype=cp.float64)

    def _pack(self):
        with self.stream:
            self.edges[0] = self.a[1]
            self.edges[1] = self.a[-2]
        self.stream.synchronize()

    def exchange(self):
        self._pack()
        reqs = [
            self.comm.Irecv(self.edges[2], source=self.up, tag=1),
            self.comm.Irecv(self.edges[3], source=self.down, tag=2),
            self.comm.Isend(self.edges[0], dest=self.up, tag=2),
            self.comm.Isend(self.edges[1], dest=self.down, tag=1),
        ]
        MPI.Request.Waitall(reqs)
        with self.stream:
            self.a[0] = self.edges[2]
            self.a[-1] = self.edges[3]

    def sweep(self, k):
        a, b = self.a, self.b
        with self.stream:
            STEP(a[:-2, 1:-1], a[1:-1, 1:-1], a[2:, 1:-1], a[1:-1, :-2], a[1:-1, 2:], k,
                 b[1:-1, 1:-1])
        self.a, self.b = b, a

    def heat(self):
        with self.stream:
            total = self.a[1:-1].sum()
            return float(total.get())


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    slab = Slab(comm, 2048, 4096)
    for i in range(400):
        slab.exchange()
        slab.sweep(0.2)
        if i % 100 == 99:
            total = comm.allreduce(slab.heat())
            if comm.Get_rank() == 0:
                print(i + 1, total)


if __name__ == "__main__":
    main()
