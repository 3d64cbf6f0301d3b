"""Halo exchange with pack and unpack streams gated by the caller's stream."""
import cupy as cp
from mpi4py import MPI


class Neighbour:
    def __init__(self, rank, send_row, recv_row, width, tags):
        self.rank = rank
        self.send_row, self.recv_row = send_row, recv_row
        self.send_tag, self.recv_tag = tags
        self.send_buf = cp.empty(width, cp.float32)
        self.recv_buf = cp.empty(width, cp.float32)
        self.pack_stream = cp.cuda.Stream(non_blocking=True)
        self.unpack_stream = cp.cuda.Stream(non_blocking=True)
        self.request = None


class CommunicationObject:
    def __init__(self, comm, rows, width):
        self.comm = comm
        up, down = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        self.neighbours = [
            Neighbour(up, 1, 0, width, (10, 11)),
            Neighbour(down, rows - 2, rows - 1, width, (11, 10)),
        ]
        self.gate = cp.cuda.Event(disable_timing=True)
        cp.cuda.Device().synchronize()

    def _unpack(self, n, field):
        with n.unpack_stream:
            field[n.recv_row] = n.recv_buf

    def schedule_exchange(self, field, user_stream):
        self.gate.record(user_stream)
        for n in self.neighbours:
            n.pack_stream.wait_event(self.gate)
            n.unpack_stream.wait_event(self.gate)
        for n in self.neighbours:
            n.unpack_stream.synchronize()
            n.request = self.comm.Irecv(n.recv_buf, source=n.rank, tag=n.recv_tag)
            if n.request.Test():
                self._unpack(n, field)
                n.request = None
        for n in self.neighbours:
            with n.pack_stream:
                n.send_buf[...] = field[n.send_row]
        sends = []
        for n in self.neighbours:
            n.pack_stream.synchronize()
            sends.append(self.comm.Isend(n.send_buf, dest=n.rank, tag=n.send_tag))
        for n in self.neighbours:
            if n.request is not None:
                n.request.Wait()
                self._unpack(n, field)
            user_stream.wait_event(n.unpack_stream.record())
        MPI.Request.Waitall(sends)


def main():
    rows, width = 256, 1 << 15
    stream = cp.cuda.Stream(non_blocking=True)
    co = CommunicationObject(MPI.COMM_WORLD, rows, width)
    with stream:
        u = cp.random.random((rows, width), dtype=cp.float32)
        for _ in range(200):
            u[1:-1] = 0.25 * (u[:-2] + u[2:]) + 0.5 * u[1:-1]
            co.schedule_exchange(u, stream)
        total = float(u.sum())
    print(MPI.COMM_WORLD.allreduce(total))


if __name__ == "__main__":
    main()
