"""Data-parallel logistic regression: NCCL all-reduce on a communication stream."""
import cupy as cp
import numpy as np
from cupy.cuda import nccl
from mpi4py import MPI


class Reducer:
    def __init__(self, comm):
        uid = comm.bcast(nccl.get_unique_id() if comm.rank == 0 else None)
        self.size = comm.size
        self.nccl = nccl.NcclCommunicator(comm.size, uid, comm.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def all_reduce(self, array):
        """Start the reduction of an array; returns the event of its end."""
        self.stream.wait_event(cp.cuda.get_current_stream().record())
        self.nccl.allReduce(array.data.ptr, array.data.ptr, array.size,
                            nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.stream.ptr)
        return self.stream.record()


class Model:
    def __init__(self, dims, reducer):
        self.w = cp.zeros(dims, cp.float32)
        self.b = cp.zeros(1, cp.float32)
        self.grad_w = cp.empty_like(self.w)
        self.grad_b = cp.empty_like(self.b)
        self.reducer = reducer

    def step(self, x, y, lr):
        stream = cp.cuda.get_current_stream()
        err = 1 / (1 + cp.exp(-(x @ self.w + self.b))) - y
        self.grad_b[...] = err.mean()
        first = self.reducer.all_reduce(self.grad_b)
        cp.matmul(x.T, err, out=self.grad_w)
        second = self.reducer.all_reduce(self.grad_w)
        stream.wait_event(first)
        self.b -= np.float32(lr / self.reducer.size) * self.grad_b
        stream.wait_event(second)
        self.w -= np.float32(lr / (self.reducer.size * len(y))) * self.grad_w


def main(dims=1024, rows=1 << 14, steps=500):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank).use()
    with cp.cuda.Stream(non_blocking=True):
        rng = cp.random.default_rng(comm.rank)
        x = rng.standard_normal((rows, dims), dtype=cp.float32)
        y = (x[:, 0] > 0).astype(cp.float32)
        model = Model(dims, Reducer(comm))
        for _ in range(steps):
            model.step(x, y, 0.1)
        print(comm.rank, float(model.w[0]))


if __name__ == "__main__":
    main()
