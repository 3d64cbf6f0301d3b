"""Halo exchange of 1-D slabs over GPU-aware MPI with per-neighbour streams."""
import cupy as cp
from mpi4py import MPI


class RecvBuffer:
    def __init__(self, source, halo, width):
        self.source = source
        self.halo = halo
        self.data = cp.empty(width, cp.float64)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.request = None


class HaloExchange:
    def __init__(self, comm, nx, width):
        self.comm = comm
        rank, size = comm.rank, comm.size
        left, right = (rank - 1) % size, (rank + 1) % size
        self.recvs = [RecvBuffer(left, 0, width), RecvBuffer(right, nx - 1, width)]
        self.sends = [(left, 1, cp.empty(width, cp.float64), 1),
                      (right, nx - 2, cp.empty(width, cp.float64), 0)]
        self.pack_stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def _unpack(self, buf, field):
        with buf.stream:
            field[buf.halo] = buf.data

    def _post_recvs(self, field):
        for tag, buf in enumerate(self.recvs):
            buf.request = self.comm.Irecv(buf.data, source=buf.source, tag=tag)
            if buf.request.Test():
                self._unpack(buf, field)
                buf.request = None

    def _pack_and_send(self, field, user_stream):
        ready = user_stream.record()
        self.pack_stream.wait_event(ready)
        with self.pack_stream:
            for _, row, data, _ in self.sends:
                data[...] = field[row]
        self.pack_stream.synchronize()
        return [self.comm.Isend(data, dest=dest, tag=tag)
                for dest, _, data, tag in self.sends]

    def exchange(self, field, user_stream):
        self._post_recvs(field)
        sends = self._pack_and_send(field, user_stream)
        for buf in self.recvs:
            if buf.request is not None:
                buf.request.Wait()
                self._unpack(buf, field)
            user_stream.wait_event(buf.stream.record())
        MPI.Request.Waitall(sends)
        for buf in self.recvs:
            buf.stream.synchronize()


def main():
    nx, width = 512, 1 << 16
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        field = cp.random.random((nx, width))
        flux = cp.empty_like(field)
    stream.synchronize()
    halo = HaloExchange(MPI.COMM_WORLD, nx, width)
    for _ in range(100):
        with stream:
            flux[1:-1] = field[:-2] + field[2:] - 2.0 * field[1:-1]
            field[1:-1] += 0.1 * flux[1:-1]
        halo.exchange(field, stream)
    stream.synchronize()
    print(MPI.COMM_WORLD.rank, float(field.sum()))


if __name__ == "__main__":
    main()
