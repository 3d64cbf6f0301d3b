"""Persistent MPI requests over device buffers for a distributed conjugate gradient."""
import cupy as cp
from mpi4py import MPI


class PersistentExchange:
    def __init__(self, comm):
        prev = comm.rank - 1 if comm.rank else MPI.PROC_NULL
        nxt = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
        self.tx = cp.zeros(2)
        self.rx = cp.zeros(2)
        cp.cuda.Stream.null.synchronize()
        self.requests = [
            comm.Recv_init(self.rx[0:1], prev, 1), comm.Recv_init(self.rx[1:2], nxt, 2),
            comm.Send_init(self.tx[0:1], prev, 2), comm.Send_init(self.tx[1:2], nxt, 1)]

    def __call__(self, p):
        stream = cp.cuda.get_current_stream()
        self.tx[0] = p[0]
        self.tx[1] = p[-1]
        stream.synchronize()
        MPI.Prequest.Startall(self.requests)
        MPI.Prequest.Waitall(self.requests)
        return self.rx

    def free(self):
        for r in self.requests:
            r.Free()


class Laplace1D:
    def __init__(self, comm, shift=0.1):
        self.exchange = PersistentExchange(comm)
        self.shift = shift

    def matvec(self, p):
        rx = self.exchange(p)
        y = (2 + self.shift) * p
        y[1:] -= p[:-1]
        y[:-1] -= p[1:]
        y[0] -= rx[0]
        y[-1] -= rx[1]
        return y


def dot(comm, a, b):
    return comm.allreduce(float(cp.dot(a, b)))


def cg(comm, op, b, iters=100, tol=1e-8):
    x = cp.zeros_like(b)
    r = b.copy()
    p = r.copy()
    rs = dot(comm, r, r)
    for _ in range(iters):
        ap = op.matvec(p)
        alpha = rs / dot(comm, p, ap)
        x += alpha * p
        r -= alpha * ap
        new = dot(comm, r, r)
        if new < tol:
            break
        p = r + (new / rs) * p
        rs = new
    return x


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    op = Laplace1D(comm)
    with cp.cuda.Stream(non_blocking=True) as stream:
        x = cg(comm, op, cp.ones(1 << 18))
        print(comm.rank, float(x.mean()))
        stream.synchronize()
    op.exchange.free()


if __name__ == "__main__":
    main()
