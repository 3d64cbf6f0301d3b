import weakref

import cupy as cp
import numpy as np


def _settle(idle, array, streams):
    for stream in streams:
        stream.synchronize()
    idle.append(array)


class Lease:
    def __init__(self, idle, array):
        self.array = array
        self._streams = []
        self._final = weakref.finalize(self, _settle, idle, array, self._streams)

    def on(self, stream):
        if stream not in self._streams:
            self._streams.append(stream)
        return self.array

    def close(self):
        self._final()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class ScratchList:
    def __init__(self, shape, dtype, count):
        self.idle = [cp.empty(shape, dtype) for _ in range(count)]
        cp.cuda.Device().synchronize()

    def lease(self):
        return Lease(self.idle, self.idle.pop())


class Whitener:
    def __init__(self, dim, scratch):
        self.scratch = scratch
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.mean = cp.zeros(dim, cp.float32)
            self.count = 0

    def update(self, rows):
        with self.scratch.lease() as lease:
            buf = lease.on(self.stream)[: len(rows)]
            buf.set(rows, stream=self.stream)
            with self.stream:
                self.mean *= self.count / (self.count + len(rows))
                self.mean += buf.sum(axis=0) / (self.count + len(rows))
            self.count += len(rows)

    def snapshot(self):
        host = self.mean.get(stream=self.stream)
        self.stream.synchronize()
        return host


def main(dim=256, rounds=60):
    scratch = ScratchList((4096, dim), cp.float32, 2)
    whiteners = [Whitener(dim, scratch) for _ in range(3)]
    rng = np.random.default_rng(0)
    for i in range(rounds):
        whiteners[i % 3].update(rng.normal(size=(2048, dim)).astype(np.float32))
    return np.stack([w.snapshot() for w in whiteners])


if __name__ == "__main__":
    print(np.abs(main()).max())
