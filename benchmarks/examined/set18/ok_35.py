import enum

import cupy as cp
import numpy as np
from mpi4py import MPI


class Block(enum.Enum):
    BLOCK = 0


BLOCK = Block.BLOCK

laplace = cp.ElementwiseKernel(
    "raw T f, int64 nx, T coeff",
    "T out",
    """
    long long x = i % nx;
    T west = x > 0 ? f[i - 1] : f[i];
    T east = x < nx - 1 ? f[i + 1] : f[i];
    out = f[i] + coeff * (west + east - 2 * f[i]);
    """,
    "laplace",
)


class ExchangeResult:
    def __init__(self, exchange, fields, requests):
        self._exchange = exchange
        self._fields = fields
        self._requests = requests

    def finish(self, stream=BLOCK):
        """Completes the exchange; work queued on `stream` later sees the halos."""
        MPI.Request.Waitall(self._requests)
        comm_stream = self._exchange.stream
        with comm_stream:
            self._exchange.unpack(self._fields)
        if stream is BLOCK:
            comm_stream.synchronize()
        else:
            stream.wait_event(comm_stream.record())


class GHexMultiNodeExchange:
    def __init__(self, comm, shape, halo, dtype, max_fields=2):
        self.comm = comm
        self.halo = halo
        rank, size = comm.Get_rank(), comm.Get_size()
        self.peers = ((rank - 1) % size, (rank + 1) % size)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            side = (max_fields, halo, shape[1])
            self.send = [cp.empty(side, dtype) for _ in self.peers]
            self.recv = [cp.empty(side, dtype) for _ in self.peers]

    def pack(self, fields):
        h = self.halo
        for k, field in enumerate(fields):
            self.send[0][k] = field[h:2 * h]
            self.send[1][k] = field[-2 * h:-h]

    def unpack(self, fields):
        h = self.halo
        for k, field in enumerate(fields):
            field[:h] = self.recv[0][k]
            field[-h:] = self.recv[1][k]

    def start(self, *fields, stream):
        """Sends the boundaries as they are after the work queued on `stream`."""
        self.stream.wait_event(stream.record())
        with self.stream:
            self.pack(fields)
        self.stream.synchronize()

        requests, n = [], len(fields)
        for tag, peer in enumerate(self.peers):
            requests.append(self.comm.Irecv(self.recv[tag][:n], source=peer, tag=1 - tag))
        for tag, peer in enumerate(self.peers):
            requests.append(self.comm.Isend(self.send[tag][:n], dest=peer, tag=tag))
        return ExchangeResult(self, fields, requests)


class Diffusion:
    def __init__(self, comm, shape, halo):
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.exchange = GHexMultiNodeExchange(comm, shape, halo, np.float64)
        self.halo = halo
        with self.compute:
            self.vn = cp.random.random(shape)
            self.w = cp.random.random(shape)
            self.vn_new = cp.empty_like(self.vn)
            self.w_new = cp.empty_like(self.w)
            self.energy = cp.zeros(())

    def step(self):
        h, nx = self.halo, self.vn.shape[1]
        with self.compute:
            laplace(self.vn, nx, 0.1, self.vn_new)
            laplace(self.w, nx, 0.05, self.w_new)
            handle = self.exchange.start(self.vn_new, self.w_new, stream=self.compute)
            self.energy += cp.vdot(self.vn[h:-h], self.vn[h:-h])
            handle.finish(stream=self.compute)
        self.vn, self.vn_new = self.vn_new, self.vn
        self.w, self.w_new = self.w_new, self.w

    def result(self):
        with self.compute:
            self.exchange.start(self.vn, stream=self.compute).finish()
            self.compute.synchronize()
            return float(self.energy.get()), float(self.vn[:self.halo].sum().get())


if __name__ == "__main__":
    world = MPI.COMM_WORLD
    cp.cuda.Device(world.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    diffusion = Diffusion(world, (1024, 2048), halo=2)
    for _ in range(100):
        diffusion.step()
    print(world.Get_rank(), diffusion.result())
