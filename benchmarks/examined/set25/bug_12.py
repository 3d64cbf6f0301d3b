import cupy as cp
from mpi4py import MPI


class RecvBuffer:
    def __init__(self, shape, dtype, rank, tag, halo):
        self.data = cp.empty(shape, dtype=dtype)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rank = rank
        self.tag = tag
        self.halo = halo
        self.request = None
        self.done = None


class SendBuffer:
    def __init__(self, shape, dtype, rank, tag, interior):
        self.data = cp.empty(shape, dtype=dtype)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rank = rank
        self.tag = tag
        self.interior = interior
        self.request = None


class CommunicationObject:
    """Exchanges one row with the upper and the lower neighbor."""

    def __init__(self, comm, field):
        up, down = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        row = (1, field.shape[1])
        self.comm = comm
        self.recvs = [
            RecvBuffer(row, field.dtype, up, 1, slice(0, 1)),
            RecvBuffer(row, field.dtype, down, 0, slice(-1, None)),
        ]
        self.sends = [
            SendBuffer(row, field.dtype, up, 0, slice(1, 2)),
            SendBuffer(row, field.dtype, down, 1, slice(-2, -1)),
        ]
        cp.cuda.Device().synchronize()

    def _unpack(self, field, buf):
        with buf.stream:
            cp.copyto(field[buf.halo], buf.data)
            buf.done = buf.stream.record()

    def post_recvs(self, field):
        for buf in self.recvs:
            buf.stream.synchronize()
            buf.done = None
            buf.request = self.comm.Irecv(buf.data, source=buf.rank, tag=buf.tag)
            if buf.request.Test():
                self._unpack(field, buf)

    def post_sends(self, field, user_stream):
        ready = user_stream.record()
        for buf in self.sends:
            buf.stream.wait_event(ready)
            with buf.stream:
                cp.copyto(buf.data, field[buf.interior])
        for buf in self.sends:
            buf.stream.synchronize()
            buf.request = self.comm.Isend(buf.data, dest=buf.rank, tag=buf.tag)

    def schedule_exchange(self, field, user_stream):
        self.post_recvs(field)
        self.post_sends(field, user_stream)

    def schedule_wait(self, field, user_stream):
        for buf in self.recvs:
            if buf.done is None:
                buf.request.Wait()
                self._unpack(field, buf)
            user_stream.wait_event(buf.done)
        for buf in self.sends:
            buf.request.Wait()


def diagnose(field, acc):
    acc += cp.abs(field).sum(axis=0)


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        field = cp.random.rand(4096, 4096)
        acc = cp.zeros(4096)
        stream.synchronize()
        co = CommunicationObject(comm, field)
        for _ in range(200):
            field[1:-1] += 1e-3 * (field[:-2] - 2 * field[1:-1] + field[2:])
            diagnose(field, acc)
            co.schedule_exchange(field, stream)
            co.schedule_wait(field, stream)
        print(comm.rank, float(acc.sum()))


if __name__ == "__main__":
    main()
