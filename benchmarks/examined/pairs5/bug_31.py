"""Shallow water on a ring of ranks: receives for the next step are posted early to hide latency."""
import cupy as cp
from mpi4py import MPI


class EarlyReceiver:
    def __init__(self, comm, width, ny):
        self.comm = comm
        self.west, self.east = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        self.w = width
        self.from_west = cp.zeros((2, width, ny))
        self.from_east = cp.zeros((2, width, ny))
        self.to_west = cp.zeros((2, width, ny))
        self.to_east = cp.zeros((2, width, ny))
        cp.cuda.get_current_stream().synchronize()
        self.recvs = self._post()

    def _post(self):
        return [self.comm.Irecv(self.from_west, source=self.west, tag=21),
                self.comm.Irecv(self.from_east, source=self.east, tag=22)]

    def send(self, state, stream):
        w = self.w
        with stream:
            self.to_west[...] = state[:, w:2 * w]
            self.to_east[...] = state[:, -2 * w:-w]
        stream.synchronize()
        return [self.comm.Isend(self.to_east, dest=self.east, tag=21),
                self.comm.Isend(self.to_west, dest=self.west, tag=22)]

    def complete(self, state, sends, stream):
        MPI.Request.Waitall(self.recvs)
        with stream:
            state[:, :self.w] = self.from_west
            state[:, -self.w:] = self.from_east
        self.recvs = self._post()
        MPI.Request.Waitall(sends)

    def cancel(self):
        for r in self.recvs:
            r.Cancel()
            r.Wait()


class ShallowWater:
    def __init__(self, comm, nx=1024, ny=1024):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.state = cp.random.random((2, nx, ny))
        self.halo = EarlyReceiver(comm, 2, ny)

    def step(self, dt=1e-3):
        sends = self.halo.send(self.state, self.stream)
        self.halo.complete(self.state, sends, self.stream)
        with self.stream:
            h, u = self.state
            du = h - cp.roll(h, 1, 0)
            dh = u - cp.roll(u, 1, 0)
            self.state[1] -= dt * du
            self.state[0] -= dt * dh


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    model = ShallowWater(comm)
    for _ in range(1000):
        model.step()
    model.stream.synchronize()
    comm.Barrier()
    model.halo.cancel()
    print(comm.rank, float(model.state.max()))


if __name__ == "__main__":
    main()
