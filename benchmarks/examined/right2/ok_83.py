"""Synchronous SGD over all local GPUs with grouped NCCL calls."""
from contextlib import contextmanager

import cupy as cp
import numpy as np
from cupy.cuda import nccl


class Replica:
    def __init__(self, device, features, seed):
        self.device = cp.cuda.Device(device)
        with self.device:
            self.compute = cp.cuda.Stream(non_blocking=True)
            self.comm_stream = cp.cuda.Stream(non_blocking=True)
            self.gradient_done = cp.cuda.Event(disable_timing=True)
            self.reduced = cp.cuda.Event(disable_timing=True)
            with self.compute:
                rng = np.random.default_rng(seed)
                self.x = cp.asarray(rng.standard_normal((4096, features)), dtype=cp.float32)
                self.y = self.x.sum(axis=1)
                self.w = cp.zeros(features, dtype=cp.float32)
                self.grad = cp.empty(features, dtype=cp.float32)

    def gradient(self):
        with self.device, self.compute:
            error = self.x @ self.w - self.y
            cp.dot(self.x.T, error, out=self.grad)
            self.grad /= len(self.y)
            self.gradient_done.record(self.compute)
            self.comm_stream.wait_event(self.gradient_done)

    def update(self, scale):
        with self.device, self.compute:
            self.compute.wait_event(self.reduced)
            self.w -= scale * self.grad

    def weights(self):
        with self.device:
            host = self.w.get(stream=self.compute)
            self.compute.synchronize()
            return host


@contextmanager
def nccl_group():
    nccl.groupStart()
    try:
        yield
    finally:
        nccl.groupEnd()


class Trainer:
    def __init__(self, features=256):
        devices = list(range(cp.cuda.runtime.getDeviceCount()))
        self.comms = nccl.NcclCommunicator.initAll(devices)
        self.replicas = [Replica(d, features, seed=d) for d in devices]

    def _all_reduce(self):
        with nccl_group():
            for comm, rep in zip(self.comms, self.replicas):
                with rep.device:
                    comm.allReduce(
                        rep.grad.data.ptr, rep.grad.data.ptr, rep.grad.size,
                        nccl.NCCL_FLOAT32, nccl.NCCL_SUM, rep.comm_stream.ptr,
                    )
        for rep in self.replicas:
            with rep.device:
                rep.reduced.record(rep.comm_stream)

    def step(self, rate):
        for rep in self.replicas:
            rep.gradient()
        self._all_reduce()
        for rep in self.replicas:
            rep.update(rate / len(self.replicas))


def main(steps=100):
    trainer = Trainer()
    for _ in range(steps):
        trainer.step(0.05)
    return np.stack([rep.weights() for rep in trainer.replicas])


if __name__ == "__main__":
    print(np.ptp(main(), axis=0).max())
