import cupy as cp
from cupy.cuda import nccl


class Replica:
    def __init__(self, device, comm, dim):
        self.device = device
        self.comm = comm
        with cp.cuda.Device(device):
            self.compute = cp.cuda.Stream(non_blocking=True)
            self.exchange = cp.cuda.Stream(non_blocking=True)
            self.grad_ready = cp.cuda.Event(disable_timing=True)
            self.reduced = cp.cuda.Event(disable_timing=True)
            with self.compute:
                self.w = cp.zeros(dim, cp.float32)
                self.g = cp.zeros(dim, cp.float32)
                self.rng = cp.random.RandomState(device)
                self.true = cp.sin(cp.arange(dim, dtype=cp.float32))

    def gradient(self, batch):
        with cp.cuda.Device(self.device), self.compute:
            x = self.rng.standard_normal((batch, self.w.size), dtype=cp.float32)
            err = x @ (self.w - self.true)
            self.g[...] = x.T @ err / batch
            self.grad_ready.record(self.compute)
        self.exchange.wait_event(self.grad_ready)

    def reduce(self):
        self.comm.allReduce(
            self.g.data.ptr, self.g.data.ptr, self.g.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.exchange.ptr
        )

    def apply(self, lr, world):
        with cp.cuda.Device(self.device):
            self.reduced.record(self.exchange)
            self.compute.wait_event(self.reduced)
            with self.compute:
                self.w -= lr / world * self.g

    def error(self):
        with cp.cuda.Device(self.device), self.compute:
            return float(cp.abs(self.w - self.true).max())


class Trainer:
    def __init__(self, devices, dim):
        comms = nccl.NcclCommunicator.initAll(devices)
        self.replicas = [Replica(d, c, dim) for d, c in zip(devices, comms)]

    def step(self, lr):
        for r in self.replicas:
            r.gradient(256)
        nccl.groupStart()
        for r in self.replicas:
            with cp.cuda.Device(r.device):
                r.reduce()
        nccl.groupEnd()
        for r in self.replicas:
            r.apply(lr, len(self.replicas))


def main():
    trainer = Trainer(list(range(cp.cuda.runtime.getDeviceCount())), 1024)
    for k in range(100):
        trainer.step(0.1)
        if k % 20 == 0:
            print(k, [r.error() for r in trainer.replicas])


if __name__ == "__main__":
    main()
