"""Single-process multi-GPU averaging with grouped NCCL calls on each device's stream."""
import cupy as cp
import numpy as np
from cupy.cuda import nccl


class Replica:
    def __init__(self, dev: int, n: int):
        self.device = cp.cuda.Device(dev)
        with self.device:
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self.w = cp.full(n, 1.0, cp.float32)
                self.g = cp.zeros(n, cp.float32)
                self.rs = cp.random.RandomState(dev)

    def backward(self):
        with self.device, self.stream:
            noise = self.rs.standard_normal(self.w.size, dtype=cp.float32)
            cp.multiply(self.w, 0.1, out=self.g)
            self.g += noise * np.float32(0.01)

    def update(self, lr: float, world: int):
        with self.device, self.stream:
            self.w -= np.float32(lr / world) * self.g


class Cluster:
    def __init__(self, devices, n):
        self.replicas = [Replica(d, n) for d in devices]
        self.comms = nccl.NcclCommunicator.initAll(list(devices))

    def all_reduce(self):
        nccl.groupStart()
        try:
            for comm, r in zip(self.comms, self.replicas):
                with r.device:
                    comm.allReduce(r.g.data.ptr, r.g.data.ptr, r.g.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, r.stream.ptr)
        finally:
            nccl.groupEnd()

    def train(self, steps, lr=0.5):
        for _ in range(steps):
            for r in self.replicas:
                r.backward()
            self.all_reduce()
            for r in self.replicas:
                r.update(lr, len(self.replicas))

    def weights(self):
        out = []
        for r in self.replicas:
            with r.device:
                r.stream.synchronize()
                out.append(cp.asnumpy(r.w))
        return out


if __name__ == "__main__":
    c = Cluster(range(cp.cuda.runtime.getDeviceCount()), 1 << 20)
    c.train(50)
    w = c.weights()
    print([float(x.mean()) for x in w])
