"""Pipelined gradient push to the parameter server rank."""
import cupy as cp
import numpy as np
from mpi4py import MPI

SERVER = 0


class GradientPusher:
    def __init__(self, comm, size):
        self.comm = comm
        self.staging = cp.empty(size, cp.float32)
        self.request = MPI.REQUEST_NULL
        self.scale = np.float32(1.0 / max(comm.size - 1, 1))

    def push(self, grad, step):
        cp.multiply(grad, self.scale, out=self.staging)
        cp.cuda.get_current_stream().synchronize()
        self.request.Wait()
        self.request = self.comm.Isend(self.staging, dest=SERVER, tag=step)

    def flush(self):
        self.request.Wait()


def worker(comm, size, steps):
    rng = cp.random.default_rng(comm.rank)
    w = cp.zeros(size, cp.float32)
    pusher = GradientPusher(comm, size)
    for step in range(steps):
        x = rng.standard_normal(size, dtype=cp.float32)
        grad = 2 * (w - x)
        pusher.push(grad, step)
        w -= np.float32(0.01) * grad
    pusher.flush()


def server(comm, size, steps):
    acc = cp.zeros(size, cp.float32)
    incoming = cp.empty(size, cp.float32)
    cp.cuda.get_current_stream().synchronize()
    for step in range(steps):
        for src in range(1, comm.size):
            comm.Recv(incoming, source=src, tag=step)
            acc += incoming
            cp.cuda.get_current_stream().synchronize()
    print(float(acc.mean()))


if __name__ == "__main__":
    world = MPI.COMM_WORLD
    cp.cuda.Device(world.rank % cp.cuda.runtime.getDeviceCount()).use()
    (server if world.rank == SERVER else worker)(world, 1 << 24, 200)
