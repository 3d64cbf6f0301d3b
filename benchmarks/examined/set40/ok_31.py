"""Data-parallel linear regression with NCCL all-reduce from CuPy + mpi4py."""
import cupy as cp
import numpy as np
from cupy.cuda import nccl
from mpi4py import MPI


class Reducer:
    def __init__(self, comm):
        self.size, self.rank = comm.Get_size(), comm.Get_rank()
        uid = comm.bcast(nccl.get_unique_id() if self.rank == 0 else None, root=0)
        self.nccl = nccl.NcclCommunicator(self.size, uid, self.rank)

    def average(self, arrays):
        stream = cp.cuda.get_current_stream()
        nccl.groupStart()
        for a in arrays:
            self.nccl.allReduce(a.data.ptr, a.data.ptr, a.size, nccl.NCCL_FLOAT32,
                                nccl.NCCL_SUM, stream.ptr)
        nccl.groupEnd()
        for a in arrays:
            a /= self.size


class LinearModel:
    def __init__(self, dim, seed=0):
        rs = cp.random.RandomState(seed)
        self.w = rs.standard_normal(dim).astype(cp.float32) * 0.01
        self.b = cp.zeros(1, dtype=cp.float32)
        self.gw = cp.zeros_like(self.w)
        self.gb = cp.zeros_like(self.b)

    def backward(self, x, y):
        err = x @ self.w + self.b - y
        n = np.float32(x.shape[0])
        self.gw[...] = (x.T @ err) * (2.0 / n)
        self.gb[...] = err.sum() * (2.0 / n)
        return (err * err).mean()

    def update(self, lr):
        self.w -= lr * self.gw
        self.b -= lr * self.gb


class Trainer:
    def __init__(self, comm, dim, lr):
        self.comm = comm
        self.lr = np.float32(lr)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.reducer = Reducer(comm)
        with self.stream:
            self.model = LinearModel(dim)

    def step(self, x, y):
        with self.stream:
            loss = self.model.backward(x, y)
            self.reducer.average([self.model.gw, self.model.gb])
            self.model.update(self.lr)
        return loss

    def read(self, loss):
        host = loss.get(stream=self.stream)
        self.stream.synchronize()
        return float(host)


def shard(rank, dim, rows, stream):
    with stream:
        rs = cp.random.RandomState(100 + rank)
        x = rs.standard_normal((rows, dim)).astype(cp.float32)
        truth = cp.linspace(-1, 1, dim, dtype=cp.float32)
        y = x @ truth + 0.01 * rs.standard_normal(rows).astype(cp.float32)
    return x, y


def main(dim=512, rows=65536, steps=200):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    trainer = Trainer(comm, dim, lr=0.05)
    x, y = shard(comm.Get_rank(), dim, rows, trainer.stream)
    for k in range(steps):
        loss = trainer.step(x, y)
        if k % 50 == 49:
            value = comm.allreduce(trainer.read(loss), op=MPI.SUM) / comm.Get_size()
            if comm.Get_rank() == 0:
                print(f"step {k + 1}: mse {value:.5f}")


if __name__ == "__main__":
    main()
