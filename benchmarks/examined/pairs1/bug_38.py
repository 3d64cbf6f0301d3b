"""Prefill rank ships KV pages to a decode rank with CUDA-aware MPI."""
import cupy as cp
import numpy as np
from mpi4py import MPI

PAGE = (64, 2048)


class PrefillRank:
    def __init__(self, comm, peer):
        self.comm, self.peer = comm, peer
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.wk = cp.random.standard_normal((2048, 2048), dtype=cp.float32) / np.float32(45)
            self.x = cp.random.standard_normal(PAGE, dtype=cp.float32)
            self.page = cp.empty(PAGE, dtype=cp.float32)
        self.stream.synchronize()

    def produce(self, tag):
        with self.stream:
            self.x = cp.tanh(self.x @ self.wk)
            cp.matmul(self.x, self.wk, out=self.page)
        self.comm.Send(self.page, dest=self.peer, tag=tag)


class DecodeRank:
    def __init__(self, comm, peer, pages):
        self.comm, self.peer = comm, peer
        self.cache = cp.zeros((pages, *PAGE), dtype=cp.float32)
        cp.cuda.Device().synchronize()

    def consume(self, tag):
        self.comm.Recv(self.cache[tag], source=self.peer, tag=tag)

    def attend(self, q):
        keys = self.cache.reshape(-1, PAGE[1])
        score = q @ keys.T
        score -= score.max(axis=1, keepdims=True)
        p = cp.exp(score)
        return (p / p.sum(axis=1, keepdims=True)) @ keys


def main(pages=64):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    if comm.rank == 0:
        worker = PrefillRank(comm, 1)
        for tag in range(pages):
            worker.produce(tag)
        worker.stream.synchronize()
    elif comm.rank == 1:
        worker = DecodeRank(comm, 0, pages)
        for tag in range(pages):
            worker.consume(tag)
        q = cp.ones((1, PAGE[1]), dtype=cp.float32)
        print(float(cp.asnumpy(worker.attend(q)).sum()))


if __name__ == "__main__":
    main()
