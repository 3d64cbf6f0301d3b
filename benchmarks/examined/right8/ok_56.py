"""Nonblocking allreduce of two alternating moment buffers."""
import cupy as cp
from mpi4py import MPI


class MomentExchange:
    def __init__(self, comm, width):
        self.comm = comm
        self.local = [cp.zeros(width) for _ in range(2)]
        self.world = [cp.zeros(width) for _ in range(2)]
        self.pending = [None, None]
        cp.cuda.Stream.null.synchronize()

    def start(self, slot, values, stream):
        self.local[slot][...] = values
        stream.synchronize()
        self.pending[slot] = self.comm.Iallreduce(self.local[slot], self.world[slot])

    def wait(self, slot):
        request, self.pending[slot] = self.pending[slot], None
        request.Wait()
        return self.world[slot]


class Ensemble:
    def __init__(self, comm, particles):
        self.comm = comm
        self.x = cp.random.standard_normal((particles, 8)) + comm.rank
        self.exchange = MomentExchange(comm, 16)

    def moments(self):
        return cp.concatenate([self.x.sum(0), (self.x ** 2).sum(0)])

    def run(self, steps, stream):
        n = self.x.shape[0] * self.comm.size
        self.exchange.start(0, self.moments(), stream)
        for k in range(1, steps + 1):
            self.x += 0.01 * cp.random.standard_normal(self.x.shape)
            self.exchange.start(k % 2, self.moments(), stream)
            total = self.exchange.wait((k - 1) % 2) / n
            mean, second = total[:8], total[8:]
            self.x -= 0.1 * (self.x - mean) / cp.sqrt(second - mean ** 2 + 1e-6)
        final = self.exchange.wait(steps % 2) / n
        return final.get()


def main():
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    with cp.cuda.Stream(non_blocking=True) as stream:
        ens = Ensemble(comm, 1 << 16)
        out = ens.run(40, stream)
    if comm.rank == 0:
        print(out[:4])


if __name__ == "__main__":
    main()
