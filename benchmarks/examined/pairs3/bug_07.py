"""Guard-cell exchange of the electromagnetic fields between neighbouring domains."""
import cupy as cp
from mpi4py import MPI
from numba import cuda


@cuda.jit
def copy_guards_to_buffers(field, left, right, ng):
    iz, ir = cuda.grid(2)
    nz = field.shape[0]
    if iz < ng and ir < field.shape[1]:
        left[iz, ir] = field[ng + iz, ir]
        right[iz, ir] = field[nz - 2 * ng + iz, ir]


@cuda.jit
def copy_buffers_to_guards(field, left, right, ng):
    iz, ir = cuda.grid(2)
    nz = field.shape[0]
    if iz < ng and ir < field.shape[1]:
        field[iz, ir] = left[iz, ir]
        field[nz - ng + iz, ir] = right[iz, ir]


class BoundaryCommunicator:
    def __init__(self, comm, nr, guards=4):
        self.comm = comm
        self.ng = guards
        self.left = (comm.rank - 1) % comm.size
        self.right = (comm.rank + 1) % comm.size
        self.send = [cuda.device_array((guards, nr)) for _ in range(2)]
        self.recv = [cuda.device_array((guards, nr)) for _ in range(2)]
        self.grid, self.block = (1, (nr + 63) // 64), (guards, 64)

    def exchange_fields(self, field):
        copy_guards_to_buffers[self.grid, self.block](field, self.send[0], self.send[1], self.ng)
        reqs = [
            self.comm.Isend(self.send[0], dest=self.left, tag=1),
            self.comm.Isend(self.send[1], dest=self.right, tag=2),
            self.comm.Irecv(self.recv[0], source=self.left, tag=2),
            self.comm.Irecv(self.recv[1], source=self.right, tag=1),
        ]
        MPI.Request.Waitall(reqs)
        copy_buffers_to_guards[self.grid, self.block](field, self.recv[0], self.recv[1], self.ng)


def main(nz=2048, nr=512, steps=100):
    comm = MPI.COMM_WORLD
    cuda.select_device(comm.rank % len(cuda.gpus))
    e = cuda.to_device(cp.asnumpy(cp.random.random((nz, nr))))
    bc = BoundaryCommunicator(comm, nr)
    for _ in range(steps):
        bc.exchange_fields(e)
    print(comm.rank, e.copy_to_host().sum())


if __name__ == "__main__":
    main()
