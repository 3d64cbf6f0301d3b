"""Single-process data parallel linear regression with bucketed NCCL reductions."""
import cupy as cp
import numpy as np
from cupy.cuda import nccl


class Replica:
    def __init__(self, device, comm, dim, buckets, seed):
        self.device = device
        self.comm = comm
        with cp.cuda.Device(device):
            rng = np.random.default_rng(seed)
            self.x = cp.asarray(rng.standard_normal((8192, dim)).astype(np.float32))
            self.y = self.x @ cp.ones(dim, cp.float32)
            self.w = cp.zeros(dim, cp.float32)
            self.grad = cp.zeros(dim, cp.float32)
            self.compute = cp.cuda.Stream(non_blocking=True)
            self.link = cp.cuda.Stream(non_blocking=True)
            self.cuts = np.linspace(0, dim, buckets + 1).astype(int)
            cp.cuda.Device(device).synchronize()

    def residual(self):
        with cp.cuda.Device(self.device), self.compute:
            self.r = self.x @ self.w - self.y

    def bucket_gradient(self, b):
        lo, hi = self.cuts[b], self.cuts[b + 1]
        with cp.cuda.Device(self.device), self.compute:
            self.grad[lo:hi] = self.x[:, lo:hi].T @ self.r
            self.link.wait_event(self.compute.record())

    def reduce_bucket(self, b):
        part = self.grad[self.cuts[b]:self.cuts[b + 1]]
        with cp.cuda.Device(self.device):
            self.comm.allReduce(
                part.data.ptr, part.data.ptr, part.size,
                nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.link.ptr,
            )

    def apply(self, lr, world):
        with cp.cuda.Device(self.device), self.compute:
            self.compute.wait_event(self.link.record())
            scale = lr / (world * self.x.shape[0])
            self.w -= scale * self.grad


class Trainer:
    def __init__(self, devices, dim, buckets=4):
        comms = nccl.NcclCommunicator.initAll(devices)
        self.buckets = buckets
        self.replicas = [
            Replica(d, c, dim, buckets, seed=d) for d, c in zip(devices, comms)
        ]

    def step(self, lr):
        for rep in self.replicas:
            rep.residual()
        for b in range(self.buckets):
            for rep in self.replicas:
                rep.bucket_gradient(b)
            nccl.groupStart()
            for rep in self.replicas:
                rep.reduce_bucket(b)
            nccl.groupEnd()
        for rep in self.replicas:
            rep.apply(lr, len(self.replicas))

    def weights(self):
        rep = self.replicas[0]
        with cp.cuda.Device(rep.device):
            return rep.w.get(stream=rep.compute)


def main(dim=4096, steps=50):
    trainer = Trainer(list(range(cp.cuda.runtime.getDeviceCount())), dim)
    for _ in range(steps):
        trainer.step(0.1)
    return trainer.weights()


if __name__ == "__main__":
    print(main().mean())
