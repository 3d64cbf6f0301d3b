import cupy as cp
from mpi4py import MPI


class GpuCommunicator:
    """Buffer collectives for CuPy arrays on a CUDA-aware MPI."""

    def __init__(self, comm: MPI.Comm = MPI.COMM_WORLD):
        self.comm = comm
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()
        cp.cuda.Device(self.rank % cp.cuda.runtime.getDeviceCount()).use()

    @staticmethod
    def _ready(*arrays: cp.ndarray) -> None:
        cp.cuda.get_current_stream().synchronize()
        for array in arrays:
            if not array.flags.c_contiguous:
                raise ValueError("contiguous array expected")

    def allreduce(self, sendbuf: cp.ndarray) -> cp.ndarray:
        recvbuf = cp.empty_like(sendbuf)
        self._ready(sendbuf, recvbuf)
        self.comm.Allreduce(sendbuf, recvbuf)
        return recvbuf

    def allreduce_inplace(self, buf: cp.ndarray) -> cp.ndarray:
        self._ready(buf)
        self.comm.Allreduce(MPI.IN_PLACE, buf)
        return buf

    def ring_shift(self, sendbuf: cp.ndarray) -> cp.ndarray:
        recvbuf = cp.empty_like(sendbuf)
        self._ready(sendbuf, recvbuf)
        right, left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        requests = [
            self.comm.Irecv(recvbuf, source=left, tag=7),
            self.comm.Isend(sendbuf, dest=right, tag=7),
        ]
        MPI.Request.Waitall(requests)
        return recvbuf


class PowerIteration:
    def __init__(self, comm: GpuCommunicator, block: cp.ndarray):
        self.comm = comm
        self.block = block
        self.stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.get_current_stream().synchronize()

    def run(self, iterations: int) -> float:
        with self.stream:
            v = cp.ones(self.block.shape[1], dtype=self.block.dtype)
            v /= cp.linalg.norm(v)
            value = cp.zeros(1, dtype=self.block.dtype)
            for _ in range(iterations):
                w = self.block.T @ (self.block @ v)
                w = self.comm.allreduce(w)
                value[0] = cp.dot(v, w)
                v = w / cp.linalg.norm(w)
            return float(value[0])


def main():
    comm = GpuCommunicator()
    rng = cp.random.default_rng(comm.rank)
    block = rng.standard_normal((4096, 1024))
    largest = PowerIteration(comm, block).run(30)
    mean = comm.allreduce_inplace(cp.asarray([largest])) / comm.size
    neighbour = comm.ring_shift(mean * comm.rank)
    print(comm.rank, float(mean[0]), float(neighbour[0]))


if __name__ == "__main__":
    main()
