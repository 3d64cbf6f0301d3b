import cupy as cp
import numpy as np
from mpi4py import MPI


diffuse = cp.ElementwiseKernel(
    "raw T u, int64 nx, float64 alpha",
    "T out",
    """
    long long ix = i % nx;
    T left = ix > 0 ? u[i - 1] : u[i];
    T right = ix < nx - 1 ? u[i + 1] : u[i];
    out = u[i] + alpha * (left - 2 * u[i] + right);
    """,
    "diffuse",
)


class Pattern:
    """Inner regions to send and halo regions to receive, by neighbour."""

    def __init__(self, comm, halo):
        rank, size = comm.Get_rank(), comm.Get_size()
        self.neighbours = [(rank - 1) % size, (rank + 1) % size]
        self.send = [np.s_[halo:2 * halo, :], np.s_[-2 * halo:-halo, :]]
        self.recv = [np.s_[:halo, :], np.s_[-halo:, :]]


class CommunicationHandle:
    def __init__(self, owner, field, requests):
        self._owner = owner
        self._field = field
        self._requests = requests

    def wait(self):
        MPI.Request.Waitall(self._requests)
        self._owner.unpack(self._field)


class CommunicationObject:
    def __init__(self, comm, pattern, shape, halo, dtype):
        self.comm = comm
        self.pattern = pattern
        self._stream = cp.cuda.Stream(non_blocking=True)
        side = (halo, shape[1])
        self._send_buf = [cp.empty(side, dtype) for _ in pattern.neighbours]
        self._recv_buf = [cp.empty(side, dtype) for _ in pattern.neighbours]

    def exchange(self, field):
        with self._stream:
            for buf, region in zip(self._send_buf, self.pattern.send):
                buf[...] = field[region]
        self._stream.synchronize()

        requests = []
        for tag, (nbr, buf) in enumerate(zip(self.pattern.neighbours, self._recv_buf)):
            requests.append(self.comm.Irecv(buf, source=nbr, tag=1 - tag))
        for tag, (nbr, buf) in enumerate(zip(self.pattern.neighbours, self._send_buf)):
            requests.append(self.comm.Isend(buf, dest=nbr, tag=tag))
        return CommunicationHandle(self, field, requests)

    def unpack(self, field):
        with self._stream:
            for buf, region in zip(self._recv_buf, self.pattern.recv):
                field[region] = buf
        self._stream.synchronize()


def main(steps=100, shape=(512, 4096), halo=2):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()

    u = cp.random.random(shape)
    tmp = cp.empty_like(u)
    co = CommunicationObject(comm, Pattern(comm, halo), shape, halo, u.dtype)
    cp.cuda.Device().synchronize()

    for _ in range(steps):
        diffuse(u, shape[1], 0.1, tmp)
        co.exchange(tmp).wait()
        u, tmp = tmp, u

    total = comm.allreduce(float(u[halo:-halo].sum()), op=MPI.SUM)
    if comm.Get_rank() == 0:
        print("mass", total)


if __name__ == "__main__":
    main()
