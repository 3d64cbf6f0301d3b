"""Data- and tensor-parallel gradient exchange with two NCCL communicators on one comm stream."""
import cupy as cp
import numpy as np
from cupy.cuda import nccl
from mpi4py import MPI


def make_comm(mpi):
    uid = nccl.get_unique_id() if mpi.Get_rank() == 0 else None
    uid = mpi.bcast(uid, root=0)
    return nccl.NcclCommunicator(mpi.Get_size(), uid, mpi.Get_rank())


class Bucket:
    def __init__(self, size):
        self.grad = cp.zeros(size, dtype=cp.float32)
        self.param = cp.zeros(size, dtype=cp.float32)
        self.produced = cp.cuda.Event(disable_timing=True)
        self.reduced = cp.cuda.Event(disable_timing=True)


class HybridReducer:
    def __init__(self, world, tp_size, bucket_sizes, lr=1.0e-2):
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.comm = cp.cuda.Stream(non_blocking=True, priority=-1)
        rank = world.Get_rank()
        self.tp = make_comm(world.Split(rank // tp_size, rank))
        self.dp = make_comm(world.Split(rank % tp_size, rank))
        self.dp_size = world.Get_size() // tp_size
        self.lr = lr
        self.buckets = [Bucket(n) for n in bucket_sizes]
        self.norm = cp.zeros(1, dtype=cp.float32)
        self.norm_done = cp.cuda.Event(disable_timing=True)
        cp.cuda.Device().synchronize()

    def _all_reduce(self, comm, array):
        comm.allReduce(
            array.data.ptr, array.data.ptr, array.size,
            nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.comm.ptr,
        )

    def backward(self, batch):
        for bucket in reversed(self.buckets):
            self.compute.wait_event(bucket.reduced)
            with self.compute:
                cp.multiply(bucket.param, batch.mean(), out=bucket.grad)
                bucket.grad -= batch.std()
            bucket.produced.record(self.compute)
            self.comm.wait_event(bucket.produced)
            self._all_reduce(self.dp, bucket.grad)
            bucket.reduced.record(self.comm)

    def clip(self):
        with self.comm:
            self.norm.fill(0)
            for bucket in self.buckets:
                self.norm += (bucket.grad * bucket.grad).sum()
        self._all_reduce(self.tp, self.norm)
        self.norm_done.record(self.comm)

    def step(self):
        self.compute.wait_event(self.norm_done)
        with self.compute:
            scale = self.lr / (self.dp_size * cp.maximum(1.0, cp.sqrt(self.norm)))
            for bucket in self.buckets:
                bucket.param -= scale * bucket.grad

    def train(self, batches):
        for batch in batches:
            with self.compute:
                device_batch = cp.asarray(batch)
                self.backward(device_batch)
            self.clip()
            self.step()
            self.comm.wait_event(self.compute.record())
        self.compute.synchronize()
        return [float(b.param.sum()) for b in self.buckets]


def main():
    world = MPI.COMM_WORLD
    cp.cuda.Device(world.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    reducer = HybridReducer(world, tp_size=2, bucket_sizes=[1 << 20, 1 << 22, 1 << 18])
    rng = np.random.default_rng(world.Get_rank())
    print(world.Get_rank(), reducer.train(rng.random((50, 1 << 16), dtype=np.float32)))


if __name__ == "__main__":
    main()
