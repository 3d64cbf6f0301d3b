"""Halo exchange for device fields."""
import cupy as cp
import numpy as np
from mpi4py import MPI


class HaloBuffer:
    def __init__(self, neighbor, send_slice, recv_slice, shape, tags):
        self.neighbor = neighbor
        self.send_tag, self.recv_tag = tags
        self.send_slice = send_slice
        self.recv_slice = recv_slice
        self.send = cp.empty(shape, dtype=cp.float64)
        self.recv = cp.empty(shape, dtype=cp.float64)
        self.pack_stream = cp.cuda.Stream(non_blocking=True)
        self.unpack_stream = cp.cuda.Stream(non_blocking=True)
        self.unpacked = cp.cuda.Event(disable_timing=True)


class CommunicationObject:
    def __init__(self, comm, buffers):
        self.comm = comm
        self.buffers = buffers
        self.user_event = cp.cuda.Event(disable_timing=True)
        cp.cuda.Device().synchronize()

    def _schedule_sync_pack_unpack(self, stream):
        self.user_event.record(stream)
        for buf in self.buffers:
            buf.pack_stream.wait_event(self.user_event)
            buf.unpack_stream.wait_event(self.user_event)

    def schedule_exchange(self, field, stream):
        """Exchange the halos of ``field`` in stream order of ``stream``."""
        self._schedule_sync_pack_unpack(stream)
        recvs = [
            self.comm.Irecv(buf.recv, source=buf.neighbor, tag=buf.recv_tag) for buf in self.buffers
        ]
        for buf in self.buffers:
            with buf.pack_stream:
                cp.copyto(buf.send, field[buf.send_slice])
        sends = []
        for buf in self.buffers:
            buf.pack_stream.synchronize()
            sends.append(self.comm.Isend(buf.send, dest=buf.neighbor, tag=buf.send_tag))
        for _ in self.buffers:
            k = MPI.Request.Waitany(recvs)
            buf = self.buffers[k]
            with buf.unpack_stream:
                field[buf.recv_slice] = buf.recv
            buf.unpacked.record(buf.unpack_stream)
        MPI.Request.Waitall(sends)
        for buf in self.buffers:
            stream.wait_event(buf.unpacked)
            buf.unpacked.synchronize()


def diffuse(n=512, steps=100):
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    up, down = (rank - 1) % size, (rank + 1) % size
    buffers = [
        HaloBuffer(up, np.s_[1, :], np.s_[0, :], (n,), (0, 1)),
        HaloBuffer(down, np.s_[-2, :], np.s_[-1, :], (n,), (1, 0)),
    ]
    exchange = CommunicationObject(comm, buffers)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        field = cp.random.random((n, n))
        for _ in range(steps):
            inner = field[1:-1, :]
            inner += 0.1 * (field[2:, :] - 2.0 * inner + field[:-2, :])
            exchange.schedule_exchange(field, stream)
        return float(field.mean())
