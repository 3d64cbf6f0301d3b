"""Collective group with a pool of NCCL streams; every call hands back a work
object that the caller waits for on the stream that uses the result."""
import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI


class Work:
    def __init__(self, stream, tensors):
        self.event = stream.record()
        self.tensors = tensors

    def wait(self, stream=None):
        (stream or cp.cuda.get_current_stream()).wait_event(self.event)


class NCCLGroup:
    def __init__(self, mpi, n_streams=2):
        self.rank, self.size = mpi.Get_rank(), mpi.Get_size()
        self.comms = []
        for _ in range(n_streams):
            uid = mpi.bcast(nccl.get_unique_id() if self.rank == 0 else None)
            self.comms.append(nccl.NcclCommunicator(self.size, uid, self.rank))
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n_streams)]
        self.turn = 0
        self.last = None

    def _next(self):
        k = self.turn
        self.turn = (self.turn + 1) % len(self.streams)
        stream = self.streams[k]
        stream.wait_event(cp.cuda.get_current_stream().record())
        if self.last is not None:
            stream.wait_event(self.last)
        return self.comms[k], stream

    def all_reduce(self, t):
        comm, stream = self._next()
        comm.allReduce(t.data.ptr, t.data.ptr, t.size, nccl.NCCL_FLOAT64, nccl.NCCL_SUM, stream.ptr)
        work = Work(stream, (t,))
        self.last = work.event
        return work


class ConjugateGradient:
    """CG on a row-distributed diagonal-plus-low-rank operator."""

    def __init__(self, group, n, rank_k=8):
        self.group = group
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            rng = cp.random.default_rng(group.rank)
            self.d = rng.random(n) + 1.0
            self.u = rng.standard_normal((n, rank_k)) / n ** 0.5
            self.b = rng.standard_normal(n)

    def _apply(self, p):
        coeff = self.u.T @ p
        work = self.group.all_reduce(coeff)
        local = self.d * p
        work.wait()
        return local + self.u @ coeff

    def _dot(self, x, y):
        s = (x * y).sum().reshape(1)
        self.group.all_reduce(s).wait()
        return s

    def solve(self, iters):
        with self.stream:
            x = cp.zeros_like(self.b)
            r = self.b.copy()
            p = r.copy()
            rr = self._dot(r, r)
            for _ in range(iters):
                q = self._apply(p)
                alpha = rr / self._dot(p, q)
                x += alpha * p
                r -= alpha * q
                new = self._dot(r, r)
                p = r + (new / rr) * p
                rr = new
            return float(rr.get()[0])


def main():
    mpi = MPI.COMM_WORLD
    cp.cuda.Device(mpi.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    print(mpi.Get_rank(), ConjugateGradient(NCCLGroup(mpi), 1 << 20).solve(25))


if __name__ == "__main__":
    main()
