"""Driver shim objects and a staging pool that polls them (Numba)."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def accumulate(dst, src, rounds):
    i = cuda.grid(1)
    if i < dst.size:
        v = dst[i]
        for _ in range(rounds):
            v = 0.999 * v + src[i]
        dst[i] = v


class StreamShim:
    def __init__(self):
        self.handle = cuda.stream()

    def is_capturing(self):
        return False

    def synchronize(self):
        self.handle.synchronize()


class EventShim:
    """Handle given to clients for a point on a side stream."""

    def __init__(self):
        self._event = cuda.event(timing=False)
        self._recorded = False

    def record(self, stream):
        self._event.record(stream.handle)
        self._recorded = True

    def query(self):
        return True

    def synchronize(self):
        if self._recorded:
            self._event.synchronize()


class StagingPool:
    def __init__(self, n, count):
        self.n = n
        self.entries = [(cuda.pinned_array(n, dtype=np.float32), EventShim()) for _ in range(count)]
        self.cursor = 0

    def acquire(self):
        """Next block whose previous transfer has completed."""
        for _ in range(len(self.entries)):
            block, event = self.entries[self.cursor]
            self.cursor = (self.cursor + 1) % len(self.entries)
            if event.query():
                return block, event
        block, event = self.entries[self.cursor]
        event.synchronize()
        return block, event


class Client:
    def __init__(self, n, staging_blocks=2):
        self.n = n
        self.stream = StreamShim()
        self.pool = StagingPool(n, staging_blocks)
        self.src = cuda.device_array(n, dtype=np.float32, stream=self.stream.handle)
        self.dst = cuda.to_device(np.zeros(n, dtype=np.float32), stream=self.stream.handle)
        self.stream.synchronize()

    def submit(self, values):
        block, event = self.pool.acquire()
        block[:] = values
        self.src.copy_to_device(block, stream=self.stream.handle)
        event.record(self.stream)
        accumulate[math.ceil(self.n / 256), 256, self.stream.handle](self.dst, self.src, 200)

    def fetch(self):
        out = self.dst.copy_to_host(stream=self.stream.handle)
        self.stream.synchronize()
        return out


def main(n=1 << 20, submissions=40):
    client = Client(n)
    for k in range(submissions):
        client.submit(np.float32(k))
    return client.fetch()


if __name__ == "__main__":
    print(main()[:4])
