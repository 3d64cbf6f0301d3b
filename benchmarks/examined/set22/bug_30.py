"""One-sided puts into a peer's device memory (CUDA IPC), completion told over MPI."""
import cupy as cp
import cupyx
import numpy as np
from mpi4py import MPI

TAG_NOTIFY = 17


class CudaCopyIface:
    def __init__(self):
        self.stream_h2d = cp.cuda.Stream(non_blocking=True)
        self.bounce = [cupyx.empty_pinned((1 << 20,), np.uint8) for _ in range(8)]
        self.turn = 0

    def next_bounce(self):
        block = self.bounce[self.turn % len(self.bounce)]
        self.turn += 1
        return block


class CudaEndpoint:
    def __init__(self, iface, comm, peer, handle):
        self.iface = iface
        self.comm = comm
        self.peer = peer
        self.remote = cp.cuda.runtime.ipcOpenMemHandle(handle)

    def put_short(self, payload, offset):
        block = self.iface.next_bounce()
        block[: payload.nbytes] = payload.view(np.uint8)
        cp.cuda.runtime.memcpyAsync(
            self.remote + offset, block.ctypes.data, payload.nbytes,
            cp.cuda.runtime.memcpyHostToDevice, self.iface.stream_h2d.ptr)

    def notify(self, seq):
        self.comm.send(seq, dest=self.peer, tag=TAG_NOTIFY)

    def close(self):
        self.iface.stream_h2d.synchronize()
        cp.cuda.runtime.ipcCloseMemHandle(self.remote)


def sender(comm, peer, rounds):
    ep = CudaEndpoint(CudaCopyIface(), comm, peer, comm.recv(source=peer))
    for seq in range(rounds):
        ep.put_short(np.full(1 << 18, seq, np.int32), 0)
        ep.notify(seq)
        comm.recv(source=peer)
    ep.close()
    comm.barrier()


def receiver(comm, peer, rounds):
    window = cp.cuda.runtime.malloc(1 << 20)
    comm.send(cp.cuda.runtime.ipcGetMemHandle(window), dest=peer)
    mem = cp.cuda.UnownedMemory(window, 1 << 20, None)
    view = cp.ndarray((1 << 18,), cp.int32, cp.cuda.MemoryPointer(mem, 0))
    for _ in range(rounds):
        seq = comm.recv(source=peer, tag=TAG_NOTIFY)
        got = cp.asnumpy(view)
        assert (got == seq).all(), (seq, got[:4])
        comm.send(seq, dest=peer)
    comm.barrier()
    cp.cuda.runtime.free(window)


def main():
    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        sender(comm, 1, 50)
    else:
        receiver(comm, 0, 50)


if __name__ == "__main__":
    main()
