"""Tensor-parallel decode over CUDA-aware MPI with CuPy."""
import cupy as cp
import numpy as np
from mpi4py import MPI


class MPIRowParallel:
    def __init__(self, comm, dim, stream, seed):
        self.comm = comm
        self.stream = stream
        shard = dim // comm.size
        with stream:
            rng = cp.random.default_rng(seed + comm.rank)
            self.weight = rng.standard_normal((shard, dim), dtype=cp.float32) / np.float32(dim ** 0.5)
            self.partial = cp.empty((8, dim), dtype=cp.float32)
            self.total = cp.empty((8, dim), dtype=cp.float32)
        self.shard = slice(comm.rank * shard, (comm.rank + 1) * shard)

    def __call__(self, x):
        with self.stream:
            cp.matmul(x[:, self.shard], self.weight, out=self.partial)
        self.stream.synchronize()
        self.comm.Allreduce(self.partial, self.total, op=MPI.SUM)
        with self.stream:
            return cp.tanh(self.total)


def main(dim=2048, layers=8, steps=50):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    stream = cp.cuda.Stream(non_blocking=True)
    stack = [MPIRowParallel(comm, dim, stream, 10 * i) for i in range(layers)]
    with stream:
        x = cp.ones((8, dim), dtype=cp.float32)
    for _ in range(steps):
        for layer in stack:
            x = layer(x)
    stream.synchronize()
    if comm.rank == 0:
        print(float(cp.asnumpy(x).sum()))


if __name__ == "__main__":
    main()
