"""Single-process multi-GPU averaging with CuPy and grouped NCCL calls."""
from dataclasses import dataclass
from typing import List

import cupy as cp
import numpy as np
from cupy.cuda import nccl


@dataclass
class Replica:
    device: int
    comm: object
    compute: cp.cuda.Stream
    exchange: cp.cuda.Stream
    weight: cp.ndarray
    grad: cp.ndarray


def build(devices: List[int], features: int) -> List[Replica]:
    comms = nccl.NcclCommunicator.initAll(devices)
    replicas = []
    for dev, comm in zip(devices, comms):
        with cp.cuda.Device(dev):
            replicas.append(
                Replica(
                    dev,
                    comm,
                    cp.cuda.Stream(non_blocking=True),
                    cp.cuda.Stream(non_blocking=True),
                    cp.zeros(features, dtype=cp.float32),
                    cp.zeros(features, dtype=cp.float32),
                )
            )
            cp.cuda.Device(dev).synchronize()
    return replicas


class Averager:
    def __init__(self, devices: List[int], features: int, lr: float = 1e-2):
        self.replicas = build(devices, features)
        self.lr = lr

    def gradients(self, xs: List[cp.ndarray], ys: List[cp.ndarray]) -> None:
        for r, x, y in zip(self.replicas, xs, ys):
            with cp.cuda.Device(r.device), r.compute:
                r.grad[...] = x.T @ (x @ r.weight - y) / (x.shape[0] * len(self.replicas))

    def exchange(self) -> None:
        nccl.groupStart()
        for r in self.replicas:
            with cp.cuda.Device(r.device):
                r.exchange.wait_event(r.compute.record())
                r.comm.allReduce(
                    r.grad.data.ptr, r.grad.data.ptr, r.grad.size,
                    nccl.NCCL_FLOAT32, nccl.NCCL_SUM, r.exchange.ptr,
                )
        nccl.groupEnd()
        for r in self.replicas:
            with cp.cuda.Device(r.device):
                r.compute.wait_event(r.exchange.record())

    def update(self) -> None:
        for r in self.replicas:
            with cp.cuda.Device(r.device), r.compute:
                r.weight -= self.lr * r.grad

    def fit(self, xs: List[cp.ndarray], ys: List[cp.ndarray], steps: int) -> np.ndarray:
        for _ in range(steps):
            self.gradients(xs, ys)
            self.exchange()
            self.update()
        first = self.replicas[0]
        with cp.cuda.Device(first.device), first.compute:
            return cp.asnumpy(first.weight)


def main() -> None:
    devices = list(range(cp.cuda.runtime.getDeviceCount()))
    xs, ys = [], []
    for dev in devices:
        with cp.cuda.Device(dev):
            x = cp.random.standard_normal((16384, 4096), dtype=cp.float32)
            xs.append(x)
            ys.append(x.sum(axis=1))
            cp.cuda.Device(dev).synchronize()
    print(Averager(devices, 4096).fit(xs, ys, 50)[:4])


if __name__ == "__main__":
    main()
