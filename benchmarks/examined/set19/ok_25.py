"""Gradient averaging through host staging for an MPI without CUDA support."""
import cupy as cp
import cupyx
import numpy as np
from mpi4py import MPI


class StagedBucket:
    """One flat device bucket, its page-locked mirror and the events around it."""

    def __init__(self, numel):
        self.device = cp.empty(numel, cp.float32)
        self.host = cupyx.empty_pinned(numel, np.float32)
        self.reduced = cupyx.empty_pinned(numel, np.float32)
        self.on_host = cp.cuda.Event(block=True, disable_timing=True)
        self.back = cp.cuda.Event(disable_timing=True)


class HostStagedAllreduce:
    def __init__(self, comm, shapes):
        self.comm = comm
        self.down = cp.cuda.Stream(non_blocking=True)
        self.up = cp.cuda.Stream(non_blocking=True)
        self.buckets = [StagedBucket(int(np.prod(s))) for s in shapes]
        cp.cuda.Stream.null.synchronize()

    def synchronize_gradients(self, grads, compute):
        """Average grads over all ranks; the result is ordered on compute."""
        for bucket, grad in zip(self.buckets, grads):
            with compute:
                bucket.device[:] = grad.ravel()
            self.down.wait_event(compute.record())
            bucket.device.data.copy_to_host_async(
                bucket.host.ctypes.data, bucket.host.nbytes, self.down)
            bucket.on_host.record(self.down)

        for bucket in self.buckets:
            bucket.on_host.synchronize()
            self.comm.Allreduce(bucket.host, bucket.reduced, op=MPI.SUM)
            bucket.reduced /= self.comm.Get_size()
            bucket.device.data.copy_from_host_async(
                bucket.reduced.ctypes.data, bucket.reduced.nbytes, self.up)
            bucket.back.record(self.up)

        for bucket, grad in zip(self.buckets, grads):
            compute.wait_event(bucket.back)
            with compute:
                grad[...] = bucket.device.reshape(grad.shape)
        self.up.synchronize()


class LinearModel:
    def __init__(self, n_in, n_out, stream):
        self.stream = stream
        with stream:
            self.w = cp.zeros((n_in, n_out), cp.float32)
            self.b = cp.zeros(n_out, cp.float32)

    def gradients(self, x, t):
        with self.stream:
            err = x @ self.w + self.b - t
            return [x.T @ err / x.shape[0], err.mean(axis=0)]

    def apply(self, grads, lr):
        with self.stream:
            self.w -= lr * grads[0]
            self.b -= lr * grads[1]


def main():
    comm = MPI.COMM_WORLD
    compute = cp.cuda.Stream(non_blocking=True)
    model = LinearModel(512, 64, compute)
    reducer = HostStagedAllreduce(comm, [(512, 64), (64,)])
    rng = np.random.default_rng(comm.Get_rank())
    for _ in range(50):
        with compute:
            x = cp.asarray(rng.normal(size=(256, 512)).astype(np.float32))
            t = cp.asarray(rng.normal(size=(256, 64)).astype(np.float32))
        grads = model.gradients(x, t)
        reducer.synchronize_gradients(grads, compute)
        model.apply(grads, 0.05)
    with compute:
        print(float(cp.abs(model.w).mean()))


if __name__ == "__main__":
    main()
