"""One-dimensional domain decomposition with CUDA-aware MPI and CuPy."""
import cupy as cp
from mpi4py import MPI


class Halo:
    """Exchanges one ghost row with each neighbour."""

    def __init__(self, comm, width):
        self.comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self.up = rank - 1 if rank > 0 else MPI.PROC_NULL
        self.down = rank + 1 if rank < size - 1 else MPI.PROC_NULL
        self.send_up = cp.empty(width)
        self.send_down = cp.empty(width)
        self.recv_up = cp.zeros(width)
        self.recv_down = cp.zeros(width)

    def exchange(self, field):
        self.send_up[...] = field[1]
        self.send_down[...] = field[-2]
        cp.cuda.get_current_stream().synchronize()
        requests = [
            self.comm.Irecv(self.recv_up, source=self.up, tag=1),
            self.comm.Irecv(self.recv_down, source=self.down, tag=0),
            self.comm.Isend(self.send_up, dest=self.up, tag=0),
            self.comm.Isend(self.send_down, dest=self.down, tag=1),
        ]
        MPI.Request.Waitall(requests)
        if self.up != MPI.PROC_NULL:
            field[0] = self.recv_up
        if self.down != MPI.PROC_NULL:
            field[-1] = self.recv_down


def relax(field, scratch):
    scratch[1:-1, 1:-1] = 0.25 * (
        field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
    )
    return scratch, field


def main(rows=512, width=2048, steps=200):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    with cp.cuda.Stream(non_blocking=True) as stream:
        field = cp.random.random((rows + 2, width))
        scratch = field.copy()
        halo = Halo(comm, width)
        for _ in range(steps):
            halo.exchange(field)
            field, scratch = relax(field, scratch)
        local = float(field[1:-1].sum())
        stream.synchronize()
    total = comm.allreduce(local)
    if comm.Get_rank() == 0:
        print(total)


if __name__ == "__main__":
    main()
