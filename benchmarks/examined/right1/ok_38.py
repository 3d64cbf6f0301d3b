"""Single-process data parallel averaging with an NCCL group over CuPy arrays."""
from contextlib import ExitStack

import cupy as cp
from cupy.cuda import nccl


class Replica:
    def __init__(self, device, n):
        self.device = device
        with cp.cuda.Device(device):
            self.compute = cp.cuda.Stream(non_blocking=True)
            self.comm_stream = cp.cuda.Stream(non_blocking=True)
            self.produced = cp.cuda.Event(disable_timing=True)
            self.reduced = cp.cuda.Event(disable_timing=True)
            with self.compute:
                self.weights = cp.ones(n, cp.float32)
                self.grad = cp.zeros(n, cp.float32)

    def scope(self):
        stack = ExitStack()
        stack.enter_context(cp.cuda.Device(self.device))
        stack.enter_context(self.compute)
        return stack

    def backward(self):
        with self.scope():
            target = cp.cos(self.weights * (self.device + 1))
            cp.multiply(self.weights - target, 0.5, out=self.grad)
            self.produced.record(self.compute)
            self.comm_stream.wait_event(self.produced)

    def apply(self, world, lr):
        with self.scope():
            self.reduced.record(self.comm_stream)
            self.compute.wait_event(self.reduced)
            self.weights -= (lr / world) * self.grad

    def norm(self):
        with self.scope():
            return float(cp.linalg.norm(self.weights))


class DataParallel:
    def __init__(self, n):
        count = cp.cuda.runtime.getDeviceCount()
        self.replicas = [Replica(d, n) for d in range(count)]
        self.comms = nccl.NcclCommunicator.initAll(list(range(count)))

    def all_reduce(self):
        nccl.groupStart()
        for replica, comm in zip(self.replicas, self.comms):
            ptr = replica.grad.data.ptr
            comm.allReduce(
                ptr, ptr, replica.grad.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, replica.comm_stream.ptr
            )
        nccl.groupEnd()

    def step(self, lr=0.1):
        for replica in self.replicas:
            replica.backward()
        self.all_reduce()
        for replica in self.replicas:
            replica.apply(len(self.replicas), lr)


def main():
    trainer = DataParallel(1 << 22)
    for _ in range(100):
        trainer.step()
    print([replica.norm() for replica in trainer.replicas])


if __name__ == "__main__":
    main()
