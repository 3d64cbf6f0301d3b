"""Boundary exchange between ranks with CuPy's NCCL bindings."""
import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI


class NcclNeighbours:
    def __init__(self, comm: MPI.Comm):
        self.rank, self.size = comm.rank, comm.size
        uid = comm.bcast(nccl.get_unique_id() if self.rank == 0 else None, root=0)
        self.comm = nccl.NcclCommunicator(self.size, uid, self.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.left, self.right = (self.rank - 1) % self.size, (self.rank + 1) % self.size

    def exchange(self, to_right: cp.ndarray, from_left: cp.ndarray, ready: cp.cuda.Event) -> cp.cuda.Event:
        self.stream.wait_event(ready)
        nccl.groupStart()
        self.comm.send(to_right.data.ptr, to_right.size, nccl.NCCL_FLOAT32, self.right, self.stream.ptr)
        self.comm.recv(from_left.data.ptr, from_left.size, nccl.NCCL_FLOAT32, self.left, self.stream.ptr)
        nccl.groupEnd()
        return self.stream.record()

    def sum_inplace(self, x: cp.ndarray, work: cp.cuda.Stream) -> None:
        self.stream.wait_event(work.record())
        self.comm.allReduce(
            x.data.ptr, x.data.ptr, x.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.stream.ptr
        )
        work.wait_event(self.stream.record())


class Advection:
    def __init__(self, net: NcclNeighbours, n: int, c: float):
        self.net, self.c = net, c
        self.work = cp.cuda.Stream(non_blocking=True)
        with self.work:
            self.u = cp.random.random(n, dtype=cp.float32)
            self.edge_out = cp.zeros(1, dtype=cp.float32)
            self.edge_in = cp.zeros(1, dtype=cp.float32)

    def step(self) -> None:
        with self.work:
            self.edge_out[...] = self.u[-1:]
            arrived = self.net.exchange(self.edge_out, self.edge_in, self.work.record())
            inner = self.u[1:] - self.c * (self.u[1:] - self.u[:-1])
            self.work.wait_event(arrived)
            first = self.u[:1] - self.c * (self.u[:1] - self.edge_in)
            self.u[1:] = inner
            self.u[:1] = first

    def mass(self) -> float:
        with self.work:
            total = self.u.sum(keepdims=True)
            self.net.sum_inplace(total, self.work)
            return float(total[0])


def main():
    world = MPI.COMM_WORLD
    cp.cuda.Device(world.rank % cp.cuda.runtime.getDeviceCount()).use()
    solver = Advection(NcclNeighbours(world), 1 << 20, 0.4)
    for i in range(200):
        solver.step()
        if i % 50 == 0:
            m = solver.mass()
            if world.rank == 0:
                print(i, m)


if __name__ == "__main__":
    main()
