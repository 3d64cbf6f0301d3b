"""Tensor-parallel matmul: partial products are reduced in column chunks on a communication stream."""
import cupy as cp
from cupyx.distributed import init_process_group
from mpi4py import MPI


class ChunkedReduce:
    def __init__(self, comm, chunks: int):
        self.comm = comm
        self.chunks = chunks
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.network = cp.cuda.Stream(non_blocking=True)
        self.done = [cp.cuda.Event(disable_timing=True) for _ in range(chunks)]

    def matmul(self, x: cp.ndarray, w: cp.ndarray, parts: list, outs: list):
        step = w.shape[1] // self.chunks
        for k in range(self.chunks):
            with self.compute:
                cp.matmul(x, w[:, k * step : (k + 1) * step], out=parts[k])
                self.done[k].record(self.compute)
            self.network.wait_event(self.done[k])
            self.comm.all_reduce(parts[k], outs[k], op="sum", stream=self.network)
        self.compute.wait_event(self.network.record())


def main():
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    cp.cuda.Device(rank % cp.cuda.runtime.getDeviceCount()).use()
    comm = init_process_group(size, rank, use_mpi=True)
    job = ChunkedReduce(comm, 4)
    with job.compute:
        rs = cp.random.RandomState(rank)
        w = rs.standard_normal((256, 1024), dtype=cp.float32) / 16
        x = rs.standard_normal((128, 256), dtype=cp.float32)
        parts = [cp.empty((128, 256), cp.float32) for _ in range(4)]
        outs = [cp.empty((128, 256), cp.float32) for _ in range(4)]
    for _ in range(10):
        job.matmul(x, w, parts, outs)
        with job.compute:
            cp.tanh(outs[0] + outs[1] - outs[2] * outs[3], out=x)
    job.compute.synchronize()
    if rank == 0:
        print(float(cp.asnumpy(x).mean()))
    comm.stop()


if __name__ == "__main__":
    main()
