import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI


class Communicator:
    def __init__(self, comm=MPI.COMM_WORLD):
        self.mpi = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        cp.cuda.Device(self.rank % cp.cuda.runtime.getDeviceCount()).use()
        uid = comm.bcast(nccl.get_unique_id() if self.rank == 0 else None)
        self.nccl = nccl.NcclCommunicator(self.size, uid, self.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.start = cp.cuda.Event(disable_timing=True)
        self.finished = cp.cuda.Event(disable_timing=True)

    def all_reduce_async(self, array):
        self.start.record(cp.cuda.get_current_stream())
        self.stream.wait_event(self.start)
        self.nccl.allReduce(
            array.data.ptr, array.data.ptr, array.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.stream.ptr
        )
        self.finished.record(self.stream)

    def wait(self):
        cp.cuda.get_current_stream().wait_event(self.finished)


class LogisticRegression:
    def __init__(self, features, comm, lr=0.1):
        self.comm = comm
        self.lr = lr
        self.w = cp.zeros(features, dtype=cp.float32)
        self.grad = cp.empty(features, dtype=cp.float32)

    def step(self, x, y):
        p = 1.0 / (1.0 + cp.exp(-(x @ self.w)))
        cp.dot(x.T, p - y, out=self.grad)
        self.grad /= x.shape[0] * self.comm.size
        self.comm.all_reduce_async(self.grad)
        loss = -(y * cp.log(p + 1e-7) + (1 - y) * cp.log(1 - p + 1e-7)).mean()
        self.comm.wait()
        self.w -= self.lr * self.grad
        return loss


def main(steps=200, rows=1 << 16, features=512):
    comm = Communicator()
    rng = cp.random.RandomState(comm.rank)
    x = rng.standard_normal((rows, features), dtype=cp.float32)
    y = (x[:, 0] > 0).astype(cp.float32)
    model = LogisticRegression(features, comm)
    losses = [model.step(x, y) for _ in range(steps)]
    if comm.rank == 0:
        print(float(cp.stack(losses)[-10:].mean()))


if __name__ == "__main__":
    main()
