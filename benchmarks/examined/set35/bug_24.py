"""Data-parallel linear regression in one process, one CuPy stream pair per GPU."""
from dataclasses import dataclass
from typing import List

import cupy as cp
import numpy as np
from cupy.cuda import nccl


@dataclass
class Lane:
    device: int
    comm: object
    compute: cp.cuda.Stream
    exchange: cp.cuda.Stream
    reduced: cp.cuda.Event
    weight: cp.ndarray
    grad: cp.ndarray


def build_lanes(devices: List[int], features: int) -> List[Lane]:
    comms = nccl.NcclCommunicator.initAll(devices)
    lanes = []
    for dev, comm in zip(devices, comms):
        with cp.cuda.Device(dev):
            lanes.append(
                Lane(
                    device=dev,
                    comm=comm,
                    compute=cp.cuda.Stream(non_blocking=True),
                    exchange=cp.cuda.Stream(non_blocking=True),
                    reduced=cp.cuda.Event(disable_timing=True),
                    weight=cp.zeros(features, dtype=cp.float32),
                    grad=cp.zeros(features, dtype=cp.float32),
                )
            )
            cp.cuda.Device(dev).synchronize()
    return lanes


class Regression:
    def __init__(self, devices: List[int], features: int, lr: float = 1e-2):
        self.lanes = build_lanes(devices, features)
        self.lr = lr

    def gradients(self, xs: List[cp.ndarray], ys: List[cp.ndarray]) -> None:
        for lane, x, y in zip(self.lanes, xs, ys):
            with cp.cuda.Device(lane.device), lane.compute:
                residual = x @ lane.weight - y
                lane.grad[...] = x.T @ residual / (x.shape[0] * len(self.lanes))

    def exchange(self) -> None:
        for lane in self.lanes:
            with cp.cuda.Device(lane.device):
                lane.exchange.wait_event(lane.compute.record())
        nccl.groupStart()
        for lane in self.lanes:
            with cp.cuda.Device(lane.device):
                lane.comm.allReduce(
                    lane.grad.data.ptr,
                    lane.grad.data.ptr,
                    lane.grad.size,
                    nccl.NCCL_FLOAT32,
                    nccl.NCCL_SUM,
                    lane.exchange.ptr,
                )
                lane.reduced.record(lane.exchange)
        nccl.groupEnd()

    def update(self) -> None:
        for lane in self.lanes:
            with cp.cuda.Device(lane.device), lane.compute:
                lane.compute.wait_event(lane.reduced)
                lane.weight -= self.lr * lane.grad

    def fit(self, xs: List[cp.ndarray], ys: List[cp.ndarray], steps: int) -> np.ndarray:
        for _ in range(steps):
            self.gradients(xs, ys)
            self.exchange()
            self.update()
        first = self.lanes[0]
        with cp.cuda.Device(first.device), first.compute:
            return cp.asnumpy(first.weight)


def main() -> None:
    devices = list(range(cp.cuda.runtime.getDeviceCount()))
    features, rows = 4096, 16384
    xs, ys = [], []
    for dev in devices:
        with cp.cuda.Device(dev):
            x = cp.random.standard_normal((rows, features), dtype=cp.float32)
            xs.append(x)
            ys.append(x.sum(axis=1))
            cp.cuda.Device(dev).synchronize()
    print(Regression(devices, features).fit(xs, ys, 50)[:4])


if __name__ == "__main__":
    main()
