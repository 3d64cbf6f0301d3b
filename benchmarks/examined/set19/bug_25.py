"""Slab-decomposed wave equation with CUDA-aware MPI face exchange."""
import cupy as cp
from mpi4py import MPI

_PACK = cp.ElementwiseKernel("float32 u", "float32 face", "face = u", "pack_face")
_UPDATE = cp.ElementwiseKernel(
    "float32 up, float32 down, float32 left, float32 right, float32 c, float32 old, float32 k",
    "float32 out",
    "out = 2.f * c - old + k * (up + down + left + right - 4.f * c)",
    "wave_update")


class FaceExchange:
    """Contiguous send and receive faces towards both neighbours."""

    def __init__(self, comm, width):
        self.comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self.lower = (rank - 1) % size
        self.upper = (rank + 1) % size
        self.send = [cp.empty(width, cp.float32) for _ in range(2)]
        self.recv = [cp.empty(width, cp.float32) for _ in range(2)]
        self.requests = []

    def pack(self, u):
        _PACK(u[1], self.send[0])
        _PACK(u[-2], self.send[1])

    def start(self):
        comm = self.comm
        self.requests = [
            comm.Irecv(self.recv[0], source=self.lower, tag=1),
            comm.Irecv(self.recv[1], source=self.upper, tag=0),
            comm.Isend(self.send[0], dest=self.lower, tag=0),
            comm.Isend(self.send[1], dest=self.upper, tag=1),
        ]

    def finish(self, u):
        MPI.Request.Waitall(self.requests)
        u[0] = self.recv[0]
        u[-1] = self.recv[1]


class WaveSlab:
    def __init__(self, comm, rows, width, k=0.2):
        self.comm = comm
        self.k = cp.float32(k)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.now = cp.zeros((rows + 2, width), cp.float32)
            self.old = cp.zeros_like(self.now)
            self.new = cp.zeros_like(self.now)
            self.now[rows // 2, width // 2] = float(comm.Get_rank() + 1)
            self.faces = FaceExchange(comm, width)

    def _update(self, first, last):
        u = self.now
        _UPDATE(u[first - 1:last - 1, 1:-1], u[first + 1:last + 1, 1:-1],
                u[first:last, :-2], u[first:last, 2:], u[first:last, 1:-1],
                self.old[first:last, 1:-1], self.k, self.new[first:last, 1:-1])

    def step(self):
        rows = self.now.shape[0]
        with self.stream:
            self.faces.pack(self.now)
            self.faces.start()
            self._update(2, rows - 2)
            self.faces.finish(self.now)
            self._update(1, 2)
            self._update(rows - 2, rows - 1)
            self.old, self.now, self.new = self.now, self.new, self.old

    def energy(self):
        with self.stream:
            local = float((self.now[1:-1] ** 2).sum())
        return self.comm.allreduce(local)


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    slab = WaveSlab(comm, rows=2048, width=8192)
    for step in range(500):
        slab.step()
    total = slab.energy()
    if comm.Get_rank() == 0:
        print(total)


if __name__ == "__main__":
    main()
