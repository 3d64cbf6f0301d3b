"""Ring pass of particle blocks with grouped NCCL send/recv on a side stream."""
import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI


class Ring:
    def __init__(self, mpi):
        uid = mpi.bcast(nccl.get_unique_id() if mpi.rank == 0 else None)
        self.comm = nccl.NcclCommunicator(mpi.size, uid, mpi.rank)
        self.nxt = (mpi.rank + 1) % mpi.size
        self.prv = (mpi.rank - 1) % mpi.size
        self.stream = cp.cuda.Stream(non_blocking=True)

    def shift(self, src, dst, after):
        self.stream.wait_event(after)
        nccl.groupStart()
        self.comm.send(src.data.ptr, src.size, nccl.NCCL_FLOAT, self.nxt, self.stream.ptr)
        self.comm.recv(dst.data.ptr, dst.size, nccl.NCCL_FLOAT, self.prv, self.stream.ptr)
        nccl.groupEnd()
        return self.stream.record()


def accumulate(force, mine, other):
    d = other[None, :, :] - mine[:, None, :]
    r2 = (d * d).sum(-1) + 1e-3
    force += (d / (r2 * cp.sqrt(r2))[..., None]).sum(1)


def forces(ring, mine, rounds, stream):
    blocks = [mine.copy(), cp.empty_like(mine)]
    force = cp.zeros_like(mine)
    ready = stream.record()
    for k in range(rounds):
        cur, nxt = blocks[k % 2], blocks[(k + 1) % 2]
        arrived = ring.shift(cur, nxt, ready) if k + 1 < rounds else None
        accumulate(force, mine, cur)
        if arrived is not None:
            stream.wait_event(arrived)
        ready = stream.record()
    return force


def main():
    mpi = MPI.COMM_WORLD
    cp.cuda.Device(mpi.rank % cp.cuda.runtime.getDeviceCount()).use()
    ring = Ring(mpi)
    with cp.cuda.Stream(non_blocking=True) as stream:
        pos = cp.random.rand(1024, 3, dtype=cp.float32)
        f = forces(ring, pos, mpi.size, stream)
        print(mpi.rank, f.sum(0).tolist())


if __name__ == "__main__":
    main()
