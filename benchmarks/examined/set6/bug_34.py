from typing import Optional

import cupy as cp
from mpi4py import MPI


class DistributedArray:
    """Array partitioned along its first axis over the ranks of a communicator."""

    def __init__(self, global_rows: int, cols: int, base_comm: MPI.Comm = MPI.COMM_WORLD):
        self.base_comm = base_comm
        self.rank = base_comm.Get_rank()
        self.size = base_comm.Get_size()
        rows = global_rows // self.size + (self.rank < global_rows % self.size)
        self.local_array = cp.zeros((rows, cols), dtype=cp.float64)

    def _send(self, buf: cp.ndarray, dest: int, tag: int) -> None:
        self.base_comm.Send([buf, MPI.FLOAT], dest=dest, tag=tag)

    def _recv(self, rows: int, source: int, tag: int) -> cp.ndarray:
        buf = cp.empty((rows, self.local_array.shape[1]), dtype=cp.float32)
        cp.cuda.get_current_stream().synchronize()
        self.base_comm.Recv([buf, MPI.FLOAT], source=source, tag=tag)
        return buf

    def add_ghost_cells(
        self, cells_front: Optional[int] = None, cells_back: Optional[int] = None
    ) -> cp.ndarray:
        ghosted = self.local_array
        if cells_front is not None:
            if self.rank != 0:
                front = self._recv(cells_front, source=self.rank - 1, tag=1)
                ghosted = cp.concatenate((front, ghosted), axis=0)
            if self.rank != self.size - 1:
                edge = self.local_array[-cells_front:].astype(cp.float32)
                self._send(edge, dest=self.rank + 1, tag=1)
        if cells_back is not None:
            if self.rank != self.size - 1:
                back = self._recv(cells_back, source=self.rank + 1, tag=0)
                ghosted = cp.concatenate((ghosted, back), axis=0)
            if self.rank != 0:
                edge = self.local_array[:cells_back].astype(cp.float32)
                self._send(edge, dest=self.rank - 1, tag=0)
        return ghosted


class MPIFirstDerivative:
    def __init__(self, sampling: float = 1.0):
        self.sampling = sampling

    def _matvec_backward(self, x: DistributedArray) -> DistributedArray:
        ghosted = x.add_ghost_cells(cells_front=1)
        inner = (ghosted[1:] - ghosted[:-1]) / self.sampling
        offset = x.local_array.shape[0] - inner.shape[0]
        x.local_array[offset:] = inner
        return x

    def smooth(self, x: DistributedArray, iterations: int) -> DistributedArray:
        for _ in range(iterations):
            x = self._matvec_backward(x)
            x.local_array *= 0.5
        return x


def main():
    x = DistributedArray(global_rows=4096, cols=4096)
    x.local_array[...] = cp.random.standard_normal(x.local_array.shape)
    result = MPIFirstDerivative(0.1).smooth(x, iterations=8)
    norm = x.base_comm.allreduce(float((result.local_array**2).sum()), op=MPI.SUM)
    if x.rank == 0:
        print(norm**0.5)


if __name__ == "__main__":
    main()
