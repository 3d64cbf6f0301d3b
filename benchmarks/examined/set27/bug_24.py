"""Gradient aggregation for multi-GPU SGD: small gradients are packed, large ones are reduced in place."""
import cupy as cp
import numpy as np
from cupy.cuda import nccl
from mpi4py import MPI


class NcclComm:
    def __init__(self, world):
        self.size = world.size
        uid = world.bcast(nccl.get_unique_id() if world.rank == 0 else None, root=0)
        self._comm = nccl.NcclCommunicator(world.size, uid, world.rank)
        self._stream = cp.cuda.Stream(non_blocking=True)

    def is_supported(self):
        return self.size > 1

    def all_reduce(self, buffers):
        for buf in buffers:
            self._comm.allReduce(buf.data.ptr, buf.data.ptr, buf.size,
                                 nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self._stream.ptr)

    def sync(self):
        self._stream.synchronize()


class SimpleDistGradAggregator:
    PACK_THRESHOLD = 32 * 1024

    def __init__(self, comm):
        self.comm = comm
        self._merged = None
        self._packed = []
        self._direct = []

    def _setup(self, gradients):
        self._packed = [k for k, g in enumerate(gradients) if g.size <= self.PACK_THRESHOLD]
        self._direct = [k for k, g in enumerate(gradients) if g.size > self.PACK_THRESHOLD]
        total = sum(gradients[k].size for k in self._packed)
        self._merged = cp.zeros(max(total, 1), dtype=cp.float32)

    def aggregate(self, gradients, header):
        if self._merged is None:
            self._setup(gradients)
        if not self.comm.is_supported():
            return header

        offset = 0
        for k in self._packed:
            n = gradients[k].size
            self._merged[offset:offset + n] = gradients[k].ravel()
            offset += n

        reduce_list = [self._merged] + [gradients[k] for k in self._direct]
        self.comm.all_reduce(reduce_list)
        self.comm.sync()

        offset = 0
        for k in self._packed:
            n = gradients[k].size
            gradients[k][...] = self._merged[offset:offset + n].reshape(gradients[k].shape)
            offset += n
        header["samples"] *= self.comm.size
        return header


class LinearLearner:
    def __init__(self, shapes, lr):
        rng = np.random.default_rng(11)
        self.params = [cp.asarray(rng.standard_normal(s, dtype=np.float32) * 0.01) for s in shapes]
        self.grads = [cp.zeros(s, dtype=cp.float32) for s in shapes]
        self.lr = lr

    def compute_gradients(self, x, t):
        w, b = self.params
        err = x @ w + b - t
        cp.matmul(x.T, err, out=self.grads[0])
        self.grads[1][...] = err.sum(axis=0)
        return {"samples": x.shape[0]}

    def update(self, header):
        scale = np.float32(self.lr / header["samples"])
        for p, g in zip(self.params, self.grads):
            p -= scale * g


def main():
    world = MPI.COMM_WORLD
    cp.cuda.Device(world.rank % cp.cuda.runtime.getDeviceCount()).use()
    learner = LinearLearner([(2048, 1000), (1000,)], lr=0.05)
    aggregator = SimpleDistGradAggregator(NcclComm(world))
    rng = np.random.default_rng(world.rank)
    for _ in range(200):
        x = cp.asarray(rng.standard_normal((512, 2048), dtype=np.float32))
        t = cp.asarray(rng.standard_normal((512, 1000), dtype=np.float32))
        header = learner.compute_gradients(x, t)
        header = aggregator.aggregate(learner.grads, header)
        learner.update(header)
    if world.rank == 0:
        print(float(cp.abs(learner.params[1]).mean()))


if __name__ == "__main__":
    main()
