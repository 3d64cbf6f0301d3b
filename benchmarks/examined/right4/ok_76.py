import math

import numpy as np
from mpi4py import MPI
from numba import cuda


@cuda.jit
def gradient(x, w, y, g):
    j = cuda.grid(1)
    if j < w.size:
        acc = 0.0
        for i in range(y.size):
            acc += (x[i, j] * w[j] - y[i]) * x[i, j]
        g[j] = acc / y.size


@cuda.jit
def descend(w, g, lr):
    j = cuda.grid(1)
    if j < w.size:
        w[j] -= lr * g[j]


class Part:
    def __init__(self, comm, x, y, stream):
        self.comm, self.stream = comm, stream
        self.x, self.y = cuda.to_device(x), cuda.to_device(y)
        self.w = cuda.to_device(np.zeros(x.shape[1]))
        self.g = cuda.to_device(np.zeros(x.shape[1]))
        self.host = cuda.pinned_array(x.shape[1], dtype=np.float64)
        self.request = MPI.REQUEST_NULL
        self.grid = math.ceil(x.shape[1] / 128)
        cuda.synchronize()

    def compute(self):
        gradient[self.grid, 128, self.stream](self.x, self.w, self.y, self.g)
        self.g.copy_to_host(self.host, stream=self.stream)

    def reduce(self):
        self.stream.synchronize()
        self.request = self.comm.Iallreduce(MPI.IN_PLACE, self.host)

    def apply(self, lr):
        self.request.Wait()
        self.g.copy_to_device(self.host, stream=self.stream)
        descend[self.grid, 128, self.stream](self.w, self.g, lr)

    def weights(self):
        self.stream.synchronize()
        return self.w.copy_to_host()


class Solver:
    def __init__(self, comm, features, rows):
        rng = np.random.default_rng(comm.rank)
        self.parts = []
        for _ in range(2):
            x = rng.normal(size=(rows, features))
            self.parts.append(Part(comm, x, x[:, 0] * 2.0, cuda.stream()))

    def step(self, lr):
        for part in self.parts:
            part.compute()
        for part in self.parts:
            part.reduce()
        for part in self.parts:
            part.apply(lr)


def main():
    comm = MPI.COMM_WORLD
    cuda.select_device(comm.rank % len(cuda.gpus))
    solver = Solver(comm, 256, 4096)
    for _ in range(20):
        solver.step(0.1 / comm.size)
    return [p.weights()[0] for p in solver.parts]
