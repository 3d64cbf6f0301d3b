import cupy as cp
from mpi4py import MPI


class Ring:
    def __init__(self, comm, block, stream):
        self.comm, self.stream = comm, stream
        self.outgoing = cp.empty_like(block)
        self.incoming = cp.empty_like(block)
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        stream.synchronize()
        self.requests = [
            comm.Recv_init(self.incoming, source=left),
            comm.Send_init(self.outgoing, dest=right),
        ]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for r in self.requests:
            r.Free()

    def begin(self, block):
        self.outgoing[...] = block
        self.stream.synchronize()
        MPI.Prequest.Startall(self.requests)

    def end(self):
        MPI.Request.Waitall(self.requests)
        return self.incoming


class PairForces:
    def __init__(self, comm, n, stream):
        self.comm, self.stream = comm, stream
        cp.random.seed(comm.rank)
        self.local = cp.random.random((n, 3))
        self.force = cp.zeros((n, 3))

    def _interact(self, other):
        d = self.local[:, None, :] - other[None, :, :]
        r2 = (d * d).sum(-1) + 1e-3
        self.force += (d / r2[..., None] ** 1.5).sum(axis=1)

    def run(self):
        with self.stream, Ring(self.comm, self.local, self.stream) as ring:
            block = self.local
            for hop in range(self.comm.size):
                last = hop + 1 == self.comm.size
                if not last:
                    ring.begin(block)
                self._interact(block)
                if not last:
                    block = ring.end().copy()
            host = cp.asnumpy(self.force)
        self.stream.synchronize()
        return host


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    stream = cp.cuda.Stream()
    forces = PairForces(comm, 1024, stream).run()
    total = comm.reduce(forces.sum(axis=0), root=0)
    if comm.rank == 0:
        print(total)


if __name__ == "__main__":
    main()
