"""Distributed first-derivative stencil on CuPy arrays over CUDA-aware MPI."""
from typing import Tuple

import cupy as cp
import numpy as np
from mpi4py import MPI

_pack = cp.RawKernel(
    r"""
extern "C" __global__
void pack_rows(const float* field, float* lower, float* upper, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols) {
        lower[c] = field[c];
        upper[c] = field[(size_t)(rows - 1) * cols + c];
    }
}
""",
    "pack_rows",
)


class HaloExchange:
    def __init__(self, comm: MPI.Comm, cols: int):
        self.comm = comm
        self.cols = cols
        rank, size = comm.Get_rank(), comm.Get_size()
        self.below = rank - 1 if rank > 0 else MPI.PROC_NULL
        self.above = rank + 1 if rank < size - 1 else MPI.PROC_NULL
        self.send_low = cp.zeros(cols, dtype=cp.float32)
        self.send_high = cp.zeros(cols, dtype=cp.float32)
        self.recv_low = cp.zeros(cols, dtype=cp.float32)
        self.recv_high = cp.zeros(cols, dtype=cp.float32)

    def __call__(self, field: cp.ndarray) -> Tuple[cp.ndarray, cp.ndarray]:
        rows, cols = field.shape
        threads = 256
        _pack(
            ((cols + threads - 1) // threads,),
            (threads,),
            (field, self.send_low, self.send_high, np.int32(rows), np.int32(cols)),
        )
        requests = [
            self.comm.Irecv([self.recv_low, MPI.FLOAT], source=self.below, tag=1),
            self.comm.Irecv([self.recv_high, MPI.FLOAT], source=self.above, tag=2),
            self.comm.Isend([self.send_low, MPI.FLOAT], dest=self.below, tag=2),
            self.comm.Isend([self.send_high, MPI.FLOAT], dest=self.above, tag=1),
        ]
        MPI.Request.Waitall(requests)
        return self.recv_low, self.recv_high


class FirstDerivative:
    """Centered difference along the distributed axis."""

    def __init__(self, comm: MPI.Comm, cols: int, spacing: float):
        self.comm = comm
        self.halo = HaloExchange(comm, cols)
        self.scale = np.float32(0.5 / spacing)
        self.stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def matvec(self, field: cp.ndarray) -> cp.ndarray:
        with self.stream:
            low, high = self.halo(field)
            padded = cp.concatenate([low[None, :], field, high[None, :]], axis=0)
            return (padded[2:] - padded[:-2]) * self.scale

    def smooth(self, field: cp.ndarray, iterations: int, step: float) -> cp.ndarray:
        for _ in range(iterations):
            first = self.matvec(field)
            second = self.matvec(first)
            with self.stream:
                field = field + np.float32(step) * second
        return field

    def norm(self, field: cp.ndarray) -> float:
        with self.stream:
            local = float(cp.vdot(field, field).get())
        return self.comm.allreduce(local, op=MPI.SUM) ** 0.5


def main() -> None:
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    rows, cols = 8192, 4096
    operator = FirstDerivative(comm, cols, spacing=0.1)
    cp.random.seed(comm.Get_rank())
    field = cp.random.standard_normal((rows, cols), dtype=cp.float32)
    cp.cuda.Device().synchronize()
    result = operator.smooth(field, iterations=20, step=1e-3)
    print(comm.Get_rank(), operator.norm(result))


if __name__ == "__main__":
    main()
