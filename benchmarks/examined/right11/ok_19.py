from __future__ import annotations

from contextlib import contextmanager

import cupy as cp
from cupy.cuda import nccl


@contextmanager
def nccl_group():
    nccl.groupStart()
    try:
        yield
    finally:
        nccl.groupEnd()


class Replica:
    def __init__(self, dev: int, size: int) -> None:
        self.dev = dev
        with cp.cuda.Device(dev):
            self.compute = cp.cuda.Stream(non_blocking=True)
            self.comm = cp.cuda.Stream(non_blocking=True)
            with self.compute:
                self.weight = cp.ones(size, dtype=cp.float32)
                self.grads = [cp.zeros(size, dtype=cp.float32) for _ in range(2)]
            self.produced = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
            self.reduced = [cp.cuda.Event(disable_timing=True) for _ in range(2)]

    def backward(self, step: int) -> None:
        k = step % 2
        with cp.cuda.Device(self.dev), self.compute:
            cp.multiply(self.weight, 0.5 + self.dev, out=self.grads[k])
            self.produced[k].record(self.compute)
            self.comm.wait_event(self.produced[k])

    def apply(self, step: int, lr: float) -> None:
        k = step % 2
        with cp.cuda.Device(self.dev), self.compute:
            self.compute.wait_event(self.reduced[k])
            self.weight -= lr * self.grads[k]


class DataParallel:
    def __init__(self, devices: list[int], size: int) -> None:
        self.comms = nccl.NcclCommunicator.initAll(devices)
        self.replicas = [Replica(d, size) for d in devices]
        self.size = size

    def all_reduce(self, step: int) -> None:
        k = step % 2
        with nccl_group():
            for comm, rep in zip(self.comms, self.replicas):
                with cp.cuda.Device(rep.dev):
                    ptr = rep.grads[k].data.ptr
                    comm.allReduce(ptr, ptr, self.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, rep.comm.ptr)
        for rep in self.replicas:
            with cp.cuda.Device(rep.dev):
                rep.reduced[k].record(rep.comm)

    def train(self, steps: int) -> None:
        for step in range(steps):
            for rep in self.replicas:
                rep.backward(step)
            self.all_reduce(step)
            for rep in self.replicas:
                rep.apply(step, lr=1e-3)

    def weights(self) -> list[float]:
        out = []
        for rep in self.replicas:
            with cp.cuda.Device(rep.dev), rep.compute:
                out.append(float(rep.weight.mean()))
        return out


if __name__ == "__main__":
    dp = DataParallel(list(range(cp.cuda.runtime.getDeviceCount())), 1 << 22)
    dp.train(50)
    print(dp.weights())
