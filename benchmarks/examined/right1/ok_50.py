"""Data-parallel gradient descent with CuPy and NCCL in one process."""
import contextlib

import cupy as cp
from cupy.cuda import nccl


@contextlib.contextmanager
def nccl_group():
    nccl.groupStart()
    try:
        yield
    finally:
        nccl.groupEnd()


class Replica:
    def __init__(self, index, comm, features, rows):
        self.device = cp.cuda.Device(index)
        self.comm = comm
        with self.device:
            self.compute = cp.cuda.Stream(non_blocking=True)
            self.traffic = cp.cuda.Stream(non_blocking=True)
            with self.compute:
                rng = cp.random.default_rng(index)
                self.x = rng.standard_normal((rows, features), dtype=cp.float32)
                self.y = self.x.sum(axis=1)
                self.w = cp.zeros(features, cp.float32)
                self.grad = cp.zeros(features, cp.float32)

    def backward(self):
        with self.device, self.compute:
            err = self.x @ self.w - self.y
            cp.divide(self.x.T @ err, self.x.shape[0], out=self.grad)
            self.traffic.wait_event(self.compute.record())

    def reduce(self):
        with self.device:
            self.comm.allReduce(
                self.grad.data.ptr, self.grad.data.ptr, self.grad.size,
                nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.traffic.ptr)

    def apply(self, lr, world):
        with self.device:
            self.compute.wait_event(self.traffic.record())
            with self.compute:
                self.w -= (lr / world) * self.grad

    def weights(self):
        with self.device, self.compute:
            return cp.asnumpy(self.w)


class Trainer:
    def __init__(self, devices, features=512, rows=8192):
        comms = nccl.NcclCommunicator.initAll(list(devices))
        self.replicas = [
            Replica(d, c, features, rows) for d, c in zip(devices, comms)
        ]

    def step(self, lr=0.1):
        for r in self.replicas:
            r.backward()
        with nccl_group():
            for r in self.replicas:
                r.reduce()
        for r in self.replicas:
            r.apply(lr, len(self.replicas))


if __name__ == "__main__":
    trainer = Trainer(range(cp.cuda.runtime.getDeviceCount()))
    for _ in range(100):
        trainer.step()
    print([r.weights().mean() for r in trainer.replicas])
