"""Global reductions over MPI through pinned host scalars, overlapped with the interior update."""
import cupy as cp
import cupyx
import numpy as np
from mpi4py import MPI


class HostReduction:
    def __init__(self, comm, width):
        self.comm = comm
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.local = cupyx.zeros_pinned((width,), dtype=np.float64)
        self.result = np.zeros(width)
        self.copied = cp.cuda.Event(disable_timing=True)
        self.source = None
        self.request = None

    def start(self, values):
        self.source = values
        self.stream.wait_event(cp.cuda.get_current_stream().record())
        values.get(stream=self.stream, out=self.local, blocking=False)
        self.copied.record(self.stream)

    def post(self):
        self.copied.synchronize()
        self.source = None
        self.request = self.comm.Iallreduce(self.local, self.result, op=MPI.SUM)

    def finish(self):
        self.request.Wait()
        return self.result.copy()


class GradientFlow:
    def __init__(self, comm, n=1 << 22):
        self.comm = comm
        self.work = cp.cuda.Stream(non_blocking=True)
        self.reduce = HostReduction(comm, 2)
        with self.work:
            self.u = cp.random.random(n)

    def step(self, dt=0.1):
        with self.work:
            stats = cp.stack([self.u.sum(), (self.u ** 2).sum()])
            self.reduce.start(stats)
            grad = cp.sin(self.u)
            self.reduce.post()
            self.u -= dt * grad
        total, square = self.reduce.finish()
        with self.work:
            self.u *= float(np.sqrt(1.0 / (1.0 + 1e-9 * square)))
        return total


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    flow = GradientFlow(comm)
    for n in range(100):
        total = flow.step()
    flow.work.synchronize()
    if comm.rank == 0:
        print(total)


if __name__ == "__main__":
    main()
