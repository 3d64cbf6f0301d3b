"""Bucketed gradient averaging with handles in the manner of async collectives."""
from dataclasses import dataclass

import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI


@dataclass
class Work:
    event: cp.cuda.Event
    bucket: cp.ndarray

    def wait(self):
        cp.cuda.get_current_stream().wait_event(self.event)
        return self.bucket


class Averager:
    def __init__(self, mpi):
        self.size = mpi.size
        uid = mpi.bcast(nccl.get_unique_id() if mpi.rank == 0 else None)
        self.comm = nccl.NcclCommunicator(mpi.size, uid, mpi.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def all_reduce(self, bucket):
        self.stream.wait_event(cp.cuda.get_current_stream().record())
        self.comm.allReduce(bucket.data.ptr, bucket.data.ptr, bucket.size,
                            nccl.NCCL_FLOAT, nccl.NCCL_SUM, self.stream.ptr)
        return Work(self.stream.record(), bucket)


class LinearModel:
    def __init__(self, dims):
        self.weights = [cp.random.randn(a, b).astype(cp.float32) * 0.02
                        for a, b in zip(dims, dims[1:])]

    def forward(self, x):
        acts = [x]
        for w in self.weights:
            acts.append(cp.maximum(acts[-1] @ w, 0))
        return acts

    def backward(self, acts, grad):
        for i in reversed(range(len(self.weights))):
            grad = grad * (acts[i + 1] > 0)
            yield i, acts[i].T @ grad
            grad = grad @ self.weights[i].T


def train(mpi, steps, lr=1e-3):
    avg = Averager(mpi)
    with cp.cuda.Stream(non_blocking=True):
        model = LinearModel([256, 512, 512, 64])
        for _ in range(steps):
            x = cp.random.randn(128, 256).astype(cp.float32)
            acts = model.forward(x)
            works = []
            for i, g in model.backward(acts, acts[-1] - 1):
                works.append((i, avg.all_reduce(cp.ascontiguousarray(g))))
            for i, work in works:
                model.weights[i] -= (lr / avg.size) * work.wait()
        return float(cp.abs(model.weights[-1]).mean())


if __name__ == "__main__":
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    print(train(comm, 10))
