"""Domain-decomposed density reduced over ranks with NCCL, overlapped with the kinetic update."""
import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI


class DensityReducer:
    def __init__(self, comm, shape):
        uid = comm.bcast(nccl.get_unique_id() if comm.rank == 0 else None)
        self.nccl = nccl.NcclCommunicator(comm.size, uid, comm.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.local = cp.zeros(shape, cp.float64)
        self.total = cp.zeros(shape, cp.float64)
        self.ready = cp.cuda.Event(disable_timing=True)
        self.done = cp.cuda.Event(disable_timing=True)

    def start(self):
        self.ready.record()
        self.stream.wait_event(self.ready)
        self.nccl.allReduce(self.local.data.ptr, self.total.data.ptr, self.local.size,
                            nccl.NCCL_FLOAT64, nccl.NCCL_SUM, self.stream.ptr)
        self.done.record(self.stream)

    def finish(self):
        self.stream.wait_event(self.done)
        return self.total


class Plasma:
    def __init__(self, comm, cells=1 << 16, particles=1 << 21):
        self.cells = cells
        self.x = cp.random.random(particles) * cells
        self.v = cp.random.standard_normal(particles)
        self.charge = cp.ones(particles)
        self.reducer = DensityReducer(comm, (cells,))
        self.field = cp.zeros(cells)

    def step(self, dt=0.01):
        rho = self.reducer.local
        rho.fill(0)
        idx = self.x.astype(cp.int64) % self.cells
        cp.add.at(rho, idx, self.charge)
        self.reducer.start()
        kinetic = 0.5 * (self.v ** 2).mean()
        total = self.reducer.finish()
        self.field[...] = cp.cumsum(total - total.mean())
        self.v += dt * self.field[idx]
        self.x = (self.x + dt * self.v) % self.cells
        return kinetic


def main(steps=300):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank).use()
    main_stream = cp.cuda.Stream(non_blocking=True)
    with main_stream:
        plasma = Plasma(comm)
        main_stream.synchronize()
        for n in range(steps):
            kinetic = plasma.step()
            if n % 100 == 0 and comm.rank == 0:
                print(n, float(kinetic))
    main_stream.synchronize()


if __name__ == "__main__":
    main()
