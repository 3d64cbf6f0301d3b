"""Gradient buckets reduced with NCCL through CuPy, communication on its own stream."""
import sys
import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI


class BucketReducer:
    def __init__(self, comm, sizes):
        uid = comm.bcast(nccl.get_unique_id() if comm.rank == 0 else None)
        self.world = comm.size
        self.comm = nccl.NcclCommunicator(comm.size, uid, comm.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.buckets = [cp.empty(n, cp.float32) for n in sizes]
        self.filled = [cp.cuda.Event(disable_timing=True) for _ in sizes]
        self.reduced = [cp.cuda.Event(disable_timing=True) for _ in sizes]

    def launch(self, i):
        self.filled[i].record(cp.cuda.get_current_stream())
        self.stream.wait_event(self.filled[i])
        b = self.buckets[i]
        self.comm.allReduce(b.data.ptr, b.data.ptr, b.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.stream.ptr)
        self.reduced[i].record(self.stream)

    def wait(self, i):
        cp.cuda.get_current_stream().wait_event(self.reduced[i])
        return self.buckets[i]


class LeastSquares:
    def __init__(self, comm, dims, samples=4096):
        self.reducer = BucketReducer(comm, dims)
        self.w = [cp.zeros(d, cp.float32) for d in dims]
        self.x = [cp.random.standard_normal((samples, d), dtype=cp.float32) for d in dims]
        self.y = cp.random.standard_normal(samples, dtype=cp.float32)

    def step(self, lr=1e-3):
        residual = sum(x @ w for x, w in zip(self.x, self.w)) - self.y
        for i, x in enumerate(self.x):
            cp.matmul(x.T, residual, out=self.reducer.buckets[i])
            self.reducer.launch(i)
        for i, w in enumerate(self.w):
            w -= lr / (self.reducer.world * len(self.y)) * self.reducer.wait(i)


def main(steps=100):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank).use()
    compute = cp.cuda.Stream(non_blocking=True)
    with compute:
        model = LeastSquares(comm, [1024, 512, 2048])
        for _ in range(steps):
            model.step()
    compute.synchronize()
    if comm.rank == 0:
        print([float(cp.linalg.norm(w)) for w in model.w], file=sys.stderr)


if __name__ == "__main__":
    main()
