"""Symmetric windows over CUDA IPC: every rank puts one chunk into every other rank."""
import numpy as np
import cupy as cp
from cupy.cuda import runtime
from mpi4py import MPI


class SymmetricWindow:
    def __init__(self, comm, nbytes):
        self.comm = comm
        self.nbytes = nbytes
        self.mem = cp.cuda.alloc(nbytes)
        handle = runtime.ipcGetMemHandle(self.mem.ptr)
        handles = comm.allgather(handle)
        self.peers = []
        for rank, peer_handle in enumerate(handles):
            if rank == comm.rank:
                self.peers.append(self.mem.ptr)
            else:
                self.peers.append(runtime.ipcOpenMemHandle(peer_handle))

    def array(self, dtype):
        count = self.nbytes // np.dtype(dtype).itemsize
        return cp.ndarray((count,), dtype=dtype, memptr=self.mem)

    def close(self):
        self.comm.Barrier()
        for rank, ptr in enumerate(self.peers):
            if rank != self.comm.rank:
                runtime.ipcCloseMemHandle(ptr)


class PutChannel:
    def __init__(self, comm, chunk_bytes):
        self.comm = comm
        self.chunk_bytes = chunk_bytes
        self.window = SymmetricWindow(comm, chunk_bytes * comm.size)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.put_stream = cp.cuda.Stream(non_blocking=True)

    def poison(self, value=0xFF):
        runtime.memsetAsync(self.window.mem.ptr, value, self.window.nbytes, self.stream.ptr)

    def barrier_all(self):
        self.comm.Barrier()

    def put_all(self, source):
        offset = self.comm.rank * self.chunk_bytes
        for step in range(self.comm.size):
            peer = (self.comm.rank + step) % self.comm.size
            runtime.memcpyAsync(
                self.window.peers[peer] + offset,
                source.data.ptr + peer * self.chunk_bytes,
                self.chunk_bytes,
                runtime.memcpyDeviceToDevice,
                self.put_stream.ptr,
            )

    def quiet(self):
        self.put_stream.synchronize()


def run_case(channel, words, iteration):
    comm = channel.comm
    source = cp.empty(comm.size * words, dtype=cp.uint32)
    for peer in range(comm.size):
        source[peer * words:(peer + 1) * words] = (iteration << 16) | (comm.rank << 8) | peer
    cp.cuda.Stream.null.synchronize()

    channel.poison()
    channel.barrier_all()
    channel.put_all(source)
    channel.quiet()
    channel.barrier_all()

    received = channel.window.array(cp.uint32)
    channel.stream.synchronize()
    bad = 0
    for sender in range(comm.size):
        expected = (iteration << 16) | (sender << 8) | comm.rank
        bad += int((received[sender * words:(sender + 1) * words] != expected).sum())
    channel.barrier_all()
    return bad


def main(words=1 << 22, iterations=50):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % runtime.getDeviceCount()).use()
    channel = PutChannel(comm, words * 4)
    bad = sum(run_case(channel, words, it) for it in range(iterations))
    total = comm.allreduce(bad)
    channel.window.close()
    if comm.rank == 0:
        print("mismatches:", total)


if __name__ == "__main__":
    main()
