"""Distributed power iteration; partial norms are staged in pinned memory for MPI."""
import cupy as cp
import cupyx
import numpy as np
from mpi4py import MPI


class ScalarExchange:
    def __init__(self, comm):
        self.comm = comm
        self.send = cupyx.zeros_pinned((1,), dtype=np.float64)
        self.recv = np.zeros(1)

    def allreduce(self, value, stream):
        value.get(stream=stream, out=self.send, blocking=False)
        self.comm.Allreduce(self.send, self.recv, op=MPI.SUM)
        return float(self.recv[0])


class RowBlockMatrix:
    def __init__(self, comm, n):
        self.comm, self.n = comm, n
        self.rows = n // comm.size
        self.block = cp.random.random((self.rows, n))
        self.x_local = cp.ones(self.rows)
        self.stage = cupyx.zeros_pinned((self.rows,), dtype=np.float64)
        self.x_host = cupyx.zeros_pinned((n,), dtype=np.float64)

    def gather(self, stream):
        self.x_local.get(stream=stream, out=self.stage, blocking=False)
        stream.synchronize()
        self.comm.Allgather(self.stage, self.x_host)
        x = cp.empty(self.n)
        x.set(self.x_host, stream=stream)
        return x


def power_iteration(a, steps):
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    exchange = ScalarExchange(a.comm)
    with stream:
        for _ in range(steps):
            x = a.gather(stream)
            y = a.block @ x
            norm2 = exchange.allreduce((y @ y).reshape(1), stream)
            a.x_local[...] = y / np.sqrt(norm2)
        stream.synchronize()
    return np.sqrt(norm2)


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    a = RowBlockMatrix(comm, 8192)
    value = power_iteration(a, 50)
    if comm.rank == 0:
        print(value)


if __name__ == "__main__":
    main()
