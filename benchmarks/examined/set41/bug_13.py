"""Fock-matrix build split over GPUs with a binary-tree reduction at the end."""
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np


class DeviceLane:
    def __init__(self, device_id, nao):
        self.id = device_id
        self.nao = nao
        with cp.cuda.Device(device_id):
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self.fock = cp.zeros((nao, nao), dtype=cp.float64)
                self.inbox = {}
            self.stream.synchronize()

    def inbox_for(self, step):
        if step not in self.inbox:
            with cp.cuda.Device(self.id), self.stream:
                self.inbox[step] = cp.empty((self.nao, self.nao), dtype=cp.float64)
        return self.inbox[step]

    def build(self, density, shells):
        with cp.cuda.Device(self.id), self.stream:
            dm = cp.asarray(density)
            self.fock.fill(0)
            for s in shells:
                coul = dm * np.float64(1.0 / (1 + s))
                self.fock += coul @ dm
        return self.id


def p2p_transfer(dst_lane, src_lane, step):
    dst = dst_lane.inbox_for(step)
    src = src_lane.fock
    with cp.cuda.Device(src_lane.id):
        cp.cuda.runtime.memcpyPeerAsync(
            dst.data.ptr, dst_lane.id, src.data.ptr, src_lane.id,
            src.nbytes, src_lane.stream.ptr,
        )
    return dst


def tree_reduce(lanes):
    step = 1
    n = len(lanes)
    while step < n:
        for i in range(0, n - step, 2 * step):
            dst, src = lanes[i], lanes[i + step]
            incoming = p2p_transfer(dst, src, step)
            with cp.cuda.Device(dst.id), dst.stream:
                dst.fock += incoming
        step *= 2
    return lanes[0]


class FockBuilder:
    def __init__(self, nao, num_devices=None):
        count = num_devices or cp.cuda.runtime.getDeviceCount()
        self.lanes = [DeviceLane(d, nao) for d in range(count)]
        for lane in self.lanes:
            step = 1
            while step < count:
                lane.inbox_for(step)
                step *= 2
            lane.stream.synchronize()
        self.pool = ThreadPoolExecutor(max_workers=count)

    def __call__(self, density, num_shells=64):
        groups = [list(range(k, num_shells, len(self.lanes))) for k in range(len(self.lanes))]
        jobs = [
            self.pool.submit(lane.build, density, g)
            for lane, g in zip(self.lanes, groups)
        ]
        for j in jobs:
            j.result()
        root = tree_reduce(self.lanes)
        for lane in self.lanes:
            lane.stream.synchronize()
        with cp.cuda.Device(root.id), root.stream:
            return cp.asnumpy(root.fock)


def main(nao=1500, cycles=5):
    build = FockBuilder(nao)
    dm = np.eye(nao)
    for _ in range(cycles):
        fock = build(dm)
        dm = fock / np.linalg.norm(fock)
    print(np.trace(dm))


if __name__ == "__main__":
    main()
