"""Sends device arrays as one consolidated message over CUDA aware MPI."""
from collections import deque

import cupy as cp
import numpy as np
from mpi4py import MPI


class FrameSender:
    def __init__(self, comm, peer, depth=4):
        self.comm = comm
        self.peer = peer
        self.depth = depth
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.packing = deque()
        self.inflight = deque()

    def submit(self, make_frames):
        with self.stream:
            frames = make_frames()
            packed = cp.concatenate([f.ravel() for f in frames])
            ready = self.stream.record()
        self.packing.append((ready, packed))
        if len(self.packing) > self.depth:
            self._ship()

    def _ship(self):
        ready, packed = self.packing.popleft()
        ready.synchronize()
        req = self.comm.Isend([packed, MPI.FLOAT], dest=self.peer, tag=7)
        self.inflight.append((req, packed))
        while self.inflight and self.inflight[0][0].Test():
            self.inflight.popleft()

    def flush(self):
        while self.packing:
            self._ship()
        while self.inflight:
            self.inflight.popleft()[0].Wait()


def produce(i):
    x = cp.linspace(0, 1, 1 << 20, dtype=cp.float32) * i
    return [cp.sin(x), cp.cos(x)]


def receive(comm, count):
    out = cp.empty(2 << 20, dtype=cp.float32)
    cp.cuda.get_current_stream().synchronize()
    total = 0.0
    for _ in range(count):
        comm.Recv([out, MPI.FLOAT], source=0, tag=7)
        total += float(out.sum())
    return total


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    if comm.rank == 0:
        sender = FrameSender(comm, 1)
        for i in range(20):
            sender.submit(lambda: produce(np.float32(i)))
        sender.flush()
    elif comm.rank == 1:
        print(receive(comm, 20))


if __name__ == "__main__":
    main()
