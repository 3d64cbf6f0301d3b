"""Data-parallel ridge regression: CuPy per rank, CUDA-aware Allreduce."""
import cupy as cp
from mpi4py import MPI


class RidgeWorker:
    """Owns one shard of the design matrix and takes gradient steps."""

    def __init__(self, comm, rows, features, lam=1e-3, rate=1e-2):
        self.comm = comm
        self.lam, self.rate = lam, rate
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            rng = cp.random.RandomState(comm.Get_rank())
            self.x = rng.standard_normal((rows, features), dtype=cp.float32)
            self.y = self.x.sum(axis=1)
            self.weights = cp.zeros(features, dtype=cp.float32)
            self.grad = cp.empty(features, dtype=cp.float32)
        self.stream.synchronize()

    def local_gradient(self):
        residual = self.x @ self.weights - self.y
        cp.dot(self.x.T, residual, out=self.grad)
        self.grad /= self.x.shape[0]

    def step(self):
        with self.stream:
            self.local_gradient()
            self.comm.Allreduce(MPI.IN_PLACE, self.grad, op=MPI.SUM)
            self.grad /= self.comm.Get_size()
            self.grad += self.lam * self.weights
            self.weights -= self.rate * self.grad

    def loss(self):
        with self.stream:
            residual = self.x @ self.weights - self.y
            value = float((residual * residual).mean())
        return value


def fit(steps=300):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    worker = RidgeWorker(comm, rows=1 << 16, features=512)
    for step in range(steps):
        worker.step()
        if step % 50 == 0:
            loss = comm.allreduce(worker.loss()) / comm.Get_size()
            if comm.Get_rank() == 0:
                print(step, loss)


if __name__ == "__main__":
    fit()
