"""Histogram tree growing; collectives are launched by a worker to bound their latency."""
from concurrent.futures import ThreadPoolExecutor, TimeoutError as FutureTimeout

import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI

_add_hist = cp.ElementwiseKernel(
    "int32 bin, float32 grad",
    "raw float64 hist",
    "atomicAdd(&hist[bin], (double)grad)",
    "add_hist",
)


class Context:
    """Device and stream of the calling thread."""

    def __init__(self, device):
        self.device = device
        cp.cuda.Device(device).use()
        self.stream = cp.cuda.Stream.ptds


class NonblockingComm:
    """NCCL communicator whose calls are made by a helper thread."""

    def __init__(self, world, device, timeout=300.0):
        self.device = device
        self.timeout = timeout
        self.helper = ThreadPoolExecutor(max_workers=1, thread_name_prefix="nccl")
        uid = world.bcast(nccl.get_unique_id() if world.rank == 0 else None, root=0)
        self.comm = self._call(lambda: nccl.NcclCommunicator(world.size, uid, world.rank))

    def _call(self, fn):
        def run():
            cp.cuda.Device(self.device).use()
            return fn()

        future = self.helper.submit(run)
        try:
            return future.result(timeout=self.timeout)
        except FutureTimeout:
            self.comm.abort()
            raise

    def all_reduce(self, data, stream):
        self._call(
            lambda: self.comm.allReduce(
                data.data.ptr, data.data.ptr, data.size, nccl.NCCL_FLOAT64, nccl.NCCL_SUM, stream.ptr
            )
        )


class HistUpdater:
    def __init__(self, ctx, comm, num_features, num_bins):
        self.ctx = ctx
        self.comm = comm
        self.num_features = num_features
        self.num_bins = num_bins
        with ctx.stream:
            self.hist = cp.zeros(num_features * num_bins, dtype=cp.float64)

    def build(self, bins, grads):
        self.hist.fill(0)
        _add_hist(bins, grads, self.hist)

    def find_split(self):
        hist = self.hist.reshape(self.num_features, self.num_bins)
        left = cp.cumsum(hist, axis=1)
        total = left[:, -1:]
        gain = left ** 2 + (total - left) ** 2
        return cp.argmax(gain)

    def update(self, bins, grads):
        with self.ctx.stream:
            self.build(bins, grads)
            self.comm.all_reduce(self.hist, self.ctx.stream)
            return self.find_split()


def main(rows=1 << 22, num_features=64, num_bins=256, rounds=32):
    world = MPI.COMM_WORLD
    ctx = Context(world.rank % cp.cuda.runtime.getDeviceCount())
    comm = NonblockingComm(world, ctx.device)
    updater = HistUpdater(ctx, comm, num_features, num_bins)
    with ctx.stream:
        rng = cp.random.RandomState(world.rank)
        bins = rng.randint(0, num_features * num_bins, rows, dtype=cp.int32)
        grads = rng.standard_normal(rows).astype(cp.float32)
        splits = [updater.update(bins, grads) for _ in range(rounds)]
        ctx.stream.synchronize()
    cp.cuda.Device().synchronize()
    if world.rank == 0:
        print([int(s) for s in splits])


if __name__ == "__main__":
    main()
