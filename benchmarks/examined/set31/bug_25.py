"""Sends a list of device arrays as one consolidated message over CUDA aware MPI."""
import cupy as cp
import numpy as np
from mpi4py import MPI


class FrameChannel:
    def __init__(self, comm, peer):
        self.comm = comm
        self.peer = peer
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.inflight = []

    def _pack(self, frames):
        sizes = np.array([f.nbytes for f in frames], dtype=np.int64)
        with self.stream:
            packed = cp.empty(int(sizes.sum()), dtype=cp.uint8)
            offset = 0
            for f, n in zip(frames, sizes):
                cp.copyto(packed[offset:offset + n], f.view(cp.uint8).ravel())
                offset += int(n)
        return sizes, packed

    def send(self, frames):
        sizes, packed = self._pack(frames)
        self.comm.send(sizes, dest=self.peer, tag=1)
        req = self.comm.Isend([packed, MPI.BYTE], dest=self.peer, tag=2)
        self.inflight.append((req, packed))

    def recv(self):
        sizes = self.comm.recv(source=self.peer, tag=1)
        with self.stream:
            packed = cp.empty(int(sizes.sum()), dtype=cp.uint8)
        self.stream.synchronize()
        self.comm.Recv([packed, MPI.BYTE], source=self.peer, tag=2)
        return cp.split(packed, np.cumsum(sizes)[:-1].tolist())

    def flush(self):
        MPI.Request.Waitall([r for r, _ in self.inflight])
        self.inflight.clear()


def main():
    comm = MPI.COMM_WORLD
    rank = comm.Get_rank()
    cp.cuda.Device(rank % cp.cuda.runtime.getDeviceCount()).use()
    chan = FrameChannel(comm, 1 - rank)
    for _ in range(20):
        if rank == 0:
            with chan.stream:
                frames = [cp.random.random(1 << 20, dtype=cp.float32) for _ in range(4)]
            chan.send(frames)
        else:
            print([int(p.size) for p in chan.recv()])
    chan.flush()


if __name__ == "__main__":
    main()
