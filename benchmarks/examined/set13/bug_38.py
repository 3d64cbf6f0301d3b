import numpy as np
from mpi4py import MPI
from numba import cuda


@cuda.jit
def pack_guard(field, left, right, guard):
    i, j = cuda.grid(2)
    if i < guard and j < field.shape[1]:
        left[i, j] = field[guard + i, j]
        right[i, j] = field[field.shape[0] - 2 * guard + i, j]


@cuda.jit
def unpack_guard(field, left, right, guard):
    i, j = cuda.grid(2)
    if i < guard and j < field.shape[1]:
        field[i, j] = left[i, j]
        field[field.shape[0] - guard + i, j] = right[i, j]


@cuda.jit
def diffuse(src, dst, guard, alpha):
    i, j = cuda.grid(2)
    if guard <= i < src.shape[0] - guard and 1 <= j < src.shape[1] - 1:
        dst[i, j] = src[i, j] + alpha * (
            src[i - 1, j] + src[i + 1, j] + src[i, j - 1] + src[i, j + 1] - 4.0 * src[i, j]
        )


class CartBuffer:
    def __init__(self, comm, shape, guard=1):
        self.comm = comm.Create_cart([comm.size], periods=[True])
        self.left_rank, self.right_rank = self.comm.Shift(0, 1)
        self.guard = guard
        self.stream = cuda.stream()
        rows, cols = shape[0] + 2 * guard, shape[1]
        self.field = cuda.to_device(np.zeros((rows, cols)), stream=self.stream)
        self.next = cuda.to_device(np.zeros((rows, cols)), stream=self.stream)
        self.send = [cuda.device_array((guard, cols)) for _ in range(2)]
        self.recv = [cuda.device_array((guard, cols)) for _ in range(2)]
        self.block = (8, 32)
        self.grid = ((rows + 7) // 8, (cols + 31) // 32)
        self.stream.synchronize()

    def exchange(self):
        pack_guard[self.grid, self.block, self.stream](self.field, self.send[0], self.send[1], self.guard)
        reqs = [
            self.comm.Irecv(self.recv[0], self.left_rank, tag=1),
            self.comm.Irecv(self.recv[1], self.right_rank, tag=0),
            self.comm.Isend(self.send[0], self.left_rank, tag=0),
            self.comm.Isend(self.send[1], self.right_rank, tag=1),
        ]
        MPI.Request.Waitall(reqs)
        unpack_guard[self.grid, self.block, self.stream](self.field, self.recv[0], self.recv[1], self.guard)
        self.stream.synchronize()

    def step(self, alpha):
        self.exchange()
        diffuse[self.grid, self.block, self.stream](self.field, self.next, self.guard, alpha)
        self.field, self.next = self.next, self.field

    def gather(self):
        host = self.field.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return self.comm.gather(host[self.guard : -self.guard])


def main(steps=1000, alpha=0.1):
    buf = CartBuffer(MPI.COMM_WORLD, (512, 2048))
    for _ in range(steps):
        buf.step(alpha)
    parts = buf.gather()
    if buf.comm.rank == 0:
        print(np.concatenate(parts).sum())
