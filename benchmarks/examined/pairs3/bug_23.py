"""Distributed k-means: NCCL sums the partial centroids of all ranks."""
import cupy as cp
import numpy as np
from cupy.cuda import nccl
from mpi4py import MPI


class Collective:
    def __init__(self, comm):
        uid = comm.bcast(nccl.get_unique_id() if comm.rank == 0 else None)
        self.comm = nccl.NcclCommunicator(comm.size, uid, comm.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def sum_(self, array):
        main = cp.cuda.get_current_stream()
        main.wait_event(self.stream.record())
        self.comm.allReduce(array.data.ptr, array.data.ptr, array.size,
                            nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.stream.ptr)
        return array


class KMeans:
    def __init__(self, k, dims, collective, seed=0):
        self.centers = cp.random.RandomState(seed).standard_normal((k, dims), dtype=cp.float32)
        self.sums = cp.zeros((k, dims + 1), cp.float32)
        self.collective = collective

    def iterate(self, x):
        d = cp.square(self.centers).sum(axis=1)[None] - 2 * x @ self.centers.T
        onehot = (d.argmin(axis=1)[:, None] == cp.arange(len(self.centers))[None]).astype(cp.float32)
        self.sums[:, :-1] = onehot.T @ x
        self.sums[:, -1] = onehot.sum(axis=0)
        total = self.collective.sum_(self.sums)
        self.centers = total[:, :-1] / cp.maximum(total[:, -1:], np.float32(1))


def main(k=64, dims=32, rows=1 << 18, rounds=30):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank).use()
    with cp.cuda.Stream(non_blocking=True):
        x = cp.random.RandomState(comm.rank).standard_normal((rows, dims), dtype=cp.float32)
        model = KMeans(k, dims, Collective(comm))
        for _ in range(rounds):
            model.iterate(x)
        centers = cp.asnumpy(model.centers)
    if comm.rank == 0:
        np.save("centers.npy", centers)


if __name__ == "__main__":
    main()
