"""PyCUDA page-locked pool: blocks are released once the event behind their copy has passed."""
from collections import deque

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.tools
from pycuda.elementwise import ElementwiseKernel
import pycuda.gpuarray as gpuarray

accumulate = ElementwiseKernel("float *acc, const float *x, float w", "acc[i] += w * x[i]", "accumulate")


class Feeder:
    def __init__(self, n, depth=4):
        self.n = n
        self.pool = pycuda.tools.PageLockedMemoryPool()
        self.stream = drv.Stream()
        self.busy = deque()
        self.depth = depth
        self.staging = [gpuarray.empty(n, np.float32) for _ in range(depth)]
        self.turn = 0

    def _reap(self, keep):
        while len(self.busy) > keep:
            event, host = self.busy.popleft()
            event.synchronize()
            del host

    def feed(self, acc, fill, weight):
        self._reap(self.depth - 1)
        host = self.pool.allocate((self.n,), np.float32)
        fill(host)
        dev = self.staging[self.turn % self.depth]
        self.turn += 1
        drv.memcpy_htod_async(dev.gpudata, host, self.stream)
        event = drv.Event(drv.event_flags.DISABLE_TIMING | drv.event_flags.BLOCKING_SYNC)
        event.record(self.stream)
        self.busy.append((event, host))
        accumulate(acc, dev, np.float32(weight), stream=self.stream)

    def drain(self):
        self.stream.synchronize()
        self.busy.clear()


def main():
    n = 1 << 20
    rng = np.random.default_rng(5)
    acc = gpuarray.zeros(n, np.float32)
    pycuda.autoinit.context.synchronize()
    feeder = Feeder(n)
    try:
        for k in range(60):
            feeder.feed(acc, lambda h: rng.random(out=h, dtype=np.float32), 1.0 / (k + 1))
    finally:
        feeder.drain()
    print(acc.get().mean())


if __name__ == "__main__":
    main()
