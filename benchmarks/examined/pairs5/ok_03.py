"""Halo exchange of a distributed advection field over CUDA-aware MPI."""
import cupy as cp
from mpi4py import MPI


class HaloExchanger:
    def __init__(self, comm, ny, nx, width=2):
        self.comm = comm
        self.left = (comm.rank - 1) % comm.size
        self.right = (comm.rank + 1) % comm.size
        self.w = width
        self.pack_stream = cp.cuda.Stream(non_blocking=True)
        self.packed = cp.cuda.Event(disable_timing=True)
        shape = (ny, width)
        self.send = {s: cp.empty(shape, cp.float64) for s in ("l", "r")}
        self.recv = {s: cp.empty(shape, cp.float64) for s in ("l", "r")}

    def exchange(self, field, ready):
        w = self.w
        s = self.pack_stream
        s.wait_event(ready)
        with s:
            self.send["l"][...] = field[:, w:2 * w]
            self.send["r"][...] = field[:, -2 * w:-w]
            self.packed.record(s)
        self.packed.synchronize()
        reqs = [
            self.comm.Irecv(self.recv["l"], source=self.left, tag=1),
            self.comm.Irecv(self.recv["r"], source=self.right, tag=2),
            self.comm.Isend(self.send["r"], dest=self.right, tag=1),
            self.comm.Isend(self.send["l"], dest=self.left, tag=2),
        ]
        MPI.Request.Waitall(reqs)
        with s:
            field[:, :w] = self.recv["l"]
            field[:, -w:] = self.recv["r"]
        return s.record()


class Advection:
    def __init__(self, comm, ny=2048, nx=2048):
        self.compute = cp.cuda.Stream(non_blocking=True)
        with self.compute:
            self.q = cp.random.random((ny, nx))
        self.halo = HaloExchanger(comm, ny, nx)

    def step(self, c=0.1):
        filled = self.halo.exchange(self.q, self.compute.record())
        self.compute.wait_event(filled)
        with self.compute:
            flux = cp.roll(self.q, 1, axis=1)
            self.q -= c * (self.q - flux)


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    model = Advection(comm)
    for _ in range(100):
        model.step()
    model.compute.synchronize()
    if comm.rank == 0:
        print(float(model.q.mean()))


if __name__ == "__main__":
    main()
