"""Halo exchange of a 2-D field with CUDA-aware MPI."""
import cupy as cp
from mpi4py import MPI


class HaloExchange:
    def __init__(self, comm, field, width=1):
        self.comm = comm
        self.width = width
        self.up = (comm.rank - 1) % comm.size
        self.down = (comm.rank + 1) % comm.size
        n = field.shape[1] * width
        self.send = [cp.empty(n, dtype=field.dtype) for _ in range(2)]
        self.recv = [cp.empty(n, dtype=field.dtype) for _ in range(2)]
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.packed = cp.cuda.Event(disable_timing=True)
        self.unpacked = cp.cuda.Event(disable_timing=True)
        self.unpacked.record(self.stream)

    def start(self, field, ready):
        w = self.width
        self.unpacked.synchronize()
        reqs = [self.comm.Irecv(self.recv[0], source=self.up, tag=1),
                self.comm.Irecv(self.recv[1], source=self.down, tag=0)]
        self.stream.wait_event(ready)
        with self.stream:
            self.send[0][...] = field[w:2 * w].ravel()
            self.send[1][...] = field[-2 * w:-w].ravel()
            self.packed.record(self.stream)
        self.packed.synchronize()
        reqs.append(self.comm.Isend(self.send[0], dest=self.up, tag=0))
        reqs.append(self.comm.Isend(self.send[1], dest=self.down, tag=1))
        return reqs

    def finish(self, field, reqs, consumer):
        MPI.Request.Waitall(reqs)
        w = self.width
        with self.stream:
            field[:w] = self.recv[0].reshape(w, -1)
            field[-w:] = self.recv[1].reshape(w, -1)
            self.unpacked.record(self.stream)
        consumer.wait_event(self.unpacked)


class Diffusion:
    def __init__(self, comm, rows, cols, alpha=0.1):
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.alpha = alpha
        with self.compute:
            self.a = cp.random.random((rows + 2, cols)).astype(cp.float32)
            self.b = self.a.copy()
        self.halo = HaloExchange(comm, self.a)
        self.ready = cp.cuda.Event(disable_timing=True)
        self.compute.synchronize()

    def _stencil(self, rows):
        a, b = self.a, self.b
        lo, hi = rows
        lap = a[lo - 1:hi - 1, 1:-1] + a[lo + 1:hi + 1, 1:-1] + a[lo:hi, :-2] + a[lo:hi, 2:] - 4 * a[lo:hi, 1:-1]
        b[lo:hi, 1:-1] = a[lo:hi, 1:-1] + self.alpha * lap

    def step(self):
        n = self.a.shape[0]
        self.ready.record(self.compute)
        reqs = self.halo.start(self.a, self.ready)
        with self.compute:
            self._stencil((2, n - 2))
        self.halo.finish(self.a, reqs, self.compute)
        with self.compute:
            self._stencil((1, 2))
            self._stencil((n - 2, n - 1))
        self.a, self.b = self.b, self.a


def main():
    sim = Diffusion(MPI.COMM_WORLD, 1024, 1024)
    for _ in range(100):
        sim.step()
    sim.compute.synchronize()
    print(MPI.COMM_WORLD.rank, float(sim.a.mean()))


if __name__ == "__main__":
    main()
