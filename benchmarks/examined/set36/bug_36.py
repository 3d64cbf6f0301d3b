"""Halo exchange of a 2-D wave solver with CUDA-aware MPI (mpi4py and CuPy)."""
import cupy as cp
from mpi4py import MPI

_step = cp.RawKernel(
    r"""
    extern "C" __global__ void wave(const float* cur, const float* prev, float* nxt,
                                    int rows, int cols, float c2) {
        int j = blockIdx.x * blockDim.x + threadIdx.x;
        int i = blockIdx.y * blockDim.y + threadIdx.y;
        if (i < 1 || j < 1 || i >= rows - 1 || j >= cols - 1) return;
        int k = i * cols + j;
        float lap = cur[k - 1] + cur[k + 1] + cur[k - cols] + cur[k + cols] - 4.f * cur[k];
        nxt[k] = 2.f * cur[k] - prev[k] + c2 * lap;
    }
    """,
    "wave",
)


class Halo:
    """Packed edge columns for the left and the right neighbour."""

    def __init__(self, rows):
        self.send = [cp.zeros(rows, dtype=cp.float32) for _ in range(2)]
        self.recv = [cp.zeros(rows, dtype=cp.float32) for _ in range(2)]


class WaveSolver:
    def __init__(self, comm, rows, cols_total, c2=0.2):
        self.comm = comm
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()
        self.rows = rows
        self.cols = cols_total // self.size + 2
        self.c2 = cp.float32(c2)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.fields = [cp.zeros((rows, self.cols), dtype=cp.float32) for _ in range(3)]
        self.halo = Halo(rows)
        if self.rank == 0:
            self.fields[0][rows // 2, self.cols // 2] = 1.0
        cp.cuda.Stream.null.synchronize()

    def _neighbour(self, side):
        other = self.rank + (-1 if side == 0 else 1)
        return other if 0 <= other < self.size else MPI.PROC_NULL

    def _pack(self, field):
        with self.stream:
            cp.copyto(self.halo.send[0], field[:, 1])
            cp.copyto(self.halo.send[1], field[:, -2])

    def _exchange(self):
        requests = []
        for side in range(2):
            peer = self._neighbour(side)
            requests.append(self.comm.Irecv([self.halo.recv[side], MPI.FLOAT], source=peer, tag=1 - side))
        for side in range(2):
            peer = self._neighbour(side)
            requests.append(self.comm.Isend([self.halo.send[side], MPI.FLOAT], dest=peer, tag=side))
        return requests

    def _unpack(self, field):
        with self.stream:
            if self._neighbour(0) != MPI.PROC_NULL:
                cp.copyto(field[:, 0], self.halo.recv[0])
            if self._neighbour(1) != MPI.PROC_NULL:
                cp.copyto(field[:, -1], self.halo.recv[1])

    def step(self):
        cur, prev, nxt = self.fields
        block = (32, 8)
        grid = ((self.cols + 31) // 32, (self.rows + 7) // 8)
        with self.stream:
            _step(grid, block, (cur, prev, nxt, cp.int32(self.rows), cp.int32(self.cols), self.c2))
        self._pack(nxt)
        MPI.Request.Waitall(self._exchange())
        self._unpack(nxt)
        self.fields = [nxt, cur, prev]

    def energy(self):
        with self.stream:
            local = cp.square(self.fields[0][:, 1:-1]).sum()
        self.stream.synchronize()
        return self.comm.allreduce(float(local), op=MPI.SUM)


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    solver = WaveSolver(comm, rows=4096, cols_total=8192)
    for _ in range(500):
        solver.step()
    energy = solver.energy()
    if comm.Get_rank() == 0:
        print(energy)


if __name__ == "__main__":
    main()
