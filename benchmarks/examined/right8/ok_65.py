"""One thread per GPU; phases of a ring shift are separated by a thread barrier."""
import threading

import cupy as cp
import numpy as np


class RingWorld:
    def __init__(self, size, n):
        self.size, self.n = size, n
        self.barrier = threading.Barrier(size)
        self.blocks = [None] * size
        self.results = [None] * size


class Rank(threading.Thread):
    def __init__(self, world, rank):
        super().__init__()
        self.world, self.rank = world, rank

    def run(self):
        with cp.cuda.Device(self.rank):
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self._main()

    def _phase_end(self):
        self.stream.synchronize()
        self.world.barrier.wait()

    def _main(self):
        w = self.world
        w.blocks[self.rank] = cp.full(w.n, float(self.rank + 1), cp.float32)
        inbox = cp.empty(w.n, cp.float32)
        total = cp.zeros(w.n, cp.float32)
        source = (self.rank + 1) % w.size
        self._phase_end()
        for _ in range(w.size):
            total += w.blocks[self.rank]
            cp.cuda.runtime.memcpyPeerAsync(
                inbox.data.ptr, self.rank, w.blocks[source].data.ptr, source,
                inbox.nbytes, self.stream.ptr)
            self._phase_end()
            w.blocks[self.rank][...] = inbox
            self._phase_end()
        w.results[self.rank] = total.get()


def main(n=1 << 18):
    world = RingWorld(cp.cuda.runtime.getDeviceCount(), n)
    ranks = [Rank(world, r) for r in range(world.size)]
    for r in ranks:
        r.start()
    for r in ranks:
        r.join()
    return np.stack(world.results).mean(axis=1)


if __name__ == "__main__":
    print(main())
