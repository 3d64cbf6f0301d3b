"""Data parallel training with CuPy and NCCL; buckets of gradients are reduced
on a communication stream while the backward pass goes on."""
import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI


class Bucket:
    def __init__(self, shapes):
        sizes = [int(cp.prod(cp.asarray(s)).get()) for s in shapes]
        self.flat = cp.zeros(sum(sizes), dtype=cp.float32)
        self.grads, pos = [], 0
        for shape, size in zip(shapes, sizes):
            self.grads.append(self.flat[pos:pos + size].reshape(shape))
            pos += size
        self.filled = cp.cuda.Event(disable_timing=True)
        self.reduced = cp.cuda.Event(disable_timing=True)


class Communicator:
    def __init__(self, mpi):
        self.size = mpi.Get_size()
        uid = mpi.bcast(nccl.get_unique_id() if mpi.Get_rank() == 0 else None)
        self.comm = nccl.NcclCommunicator(self.size, uid, mpi.Get_rank())
        self.stream = cp.cuda.Stream(non_blocking=True)

    def reduce(self, bucket, producer):
        bucket.filled.record(producer)
        self.stream.wait_event(bucket.filled)
        p = bucket.flat.data.ptr
        self.comm.allReduce(p, p, bucket.flat.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.stream.ptr)
        bucket.reduced.record(self.stream)


class MLP:
    def __init__(self, dims, comm, seed=0):
        rng = cp.random.default_rng(seed)
        self.w = [rng.standard_normal((a, b), dtype=cp.float32) / a ** 0.5 for a, b in zip(dims, dims[1:])]
        self.buckets = [Bucket([w.shape]) for w in self.w]
        self.comm = comm
        self.stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def train_step(self, x, target, lr):
        with self.stream:
            acts = [x]
            for w in self.w:
                acts.append(cp.tanh(acts[-1] @ w))
            delta = (acts[-1] - target) * (1 - acts[-1] ** 2)
            for k in reversed(range(len(self.w))):
                cp.matmul(acts[k].T, delta, out=self.buckets[k].grads[0])
                self.comm.reduce(self.buckets[k], self.stream)
                if k:
                    delta = (delta @ self.w[k].T) * (1 - acts[k] ** 2)
            scale = cp.float32(lr / (self.comm.size * x.shape[0]))
            for w, bucket in zip(self.w, self.buckets):
                self.stream.wait_event(bucket.reduced)
                w -= scale * bucket.grads[0]
            return cp.abs(acts[-1] - target).mean()


def main():
    mpi = MPI.COMM_WORLD
    cp.cuda.Device(mpi.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    net = MLP([1024, 2048, 2048, 256], Communicator(mpi))
    rng = cp.random.default_rng(mpi.Get_rank() + 1)
    with net.stream:
        x = rng.standard_normal((512, 1024), dtype=cp.float32)
        t = cp.tanh(rng.standard_normal((512, 256), dtype=cp.float32))
    for step in range(100):
        err = net.train_step(x, t, 0.1)
    print(mpi.Get_rank(), float(err.get(stream=net.stream)))


if __name__ == "__main__":
    main()
