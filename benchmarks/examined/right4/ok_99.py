import cupy as cp
import cupyx
import numpy as np
from mpi4py import MPI


class Staging:
    def __init__(self, n):
        self.host = cupyx.empty_pinned(n, np.float64)
        self.event = cp.cuda.Event(disable_timing=True)
        self.request = MPI.REQUEST_NULL


class Neighbor:
    """Two-way channel to another rank over pinned memory."""

    def __init__(self, comm, rank, n):
        self.comm, self.rank = comm, rank
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.out, self.inc = Staging(n), Staging(n)
        self.dev = cp.zeros(n)
        cp.cuda.Device().synchronize()
        self._post()

    def _post(self):
        self.inc.request = self.comm.Irecv(self.inc.host, source=self.rank)

    def send(self, values, ready):
        self.out.request.Wait()
        self.stream.wait_event(ready)
        values.get(stream=self.stream, out=self.out.host)
        self.out.event.record(self.stream)
        self.out.event.synchronize()
        self.out.request = self.comm.Isend(self.out.host, dest=self.rank)

    def poll(self):
        return self.inc.request.Test()

    def receive(self, consumer, last):
        self.stream.wait_event(consumer.record())
        self.dev.set(self.inc.host, stream=self.stream)
        self.inc.event.record(self.stream)
        self.inc.event.synchronize()
        if not last:
            self._post()
        return self.dev


class Consensus:
    def __init__(self, comm, n):
        self.comm = comm
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.x = cp.full(n, float(comm.rank))
        others = [r for r in range(comm.size) if r != comm.rank]
        self.neighbors = [Neighbor(comm, r, n) for r in others]

    def round(self, last):
        ready = self.stream.record()
        for nb in self.neighbors:
            nb.send(self.x, ready)
        with self.stream:
            total = self.x.copy()
        waiting = list(self.neighbors)
        while waiting:
            for nb in [w for w in waiting if w.poll()]:
                waiting.remove(nb)
                values = nb.receive(self.stream, last)
                with self.stream:
                    total += values
        with self.stream:
            cp.divide(total, self.comm.size, out=self.x)

    def run(self, rounds):
        for i in range(rounds):
            self.round(i + 1 == rounds)
        for nb in self.neighbors:
            nb.out.request.Wait()
        with self.stream:
            return float(self.x.sum())


if __name__ == "__main__":
    print(Consensus(MPI.COMM_WORLD, 1 << 20).run(10))
