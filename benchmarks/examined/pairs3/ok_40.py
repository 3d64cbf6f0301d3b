"""Reference-counted pinned slabs that return to their pool when they are dropped."""
import threading
import weakref

import cupy as cp
import cupyx
import numpy as np


def _give_back(pool, memory, event):
    event.synchronize()
    with pool.lock:
        pool.free.append(memory)


class Slab:
    def __init__(self, pool, memory):
        self.array = memory
        self.last_use = cp.cuda.Event(disable_timing=True)
        self._finalizer = weakref.finalize(self, _give_back, pool, memory, self.last_use)

    def upload(self, target, stream):
        target.set(self.array, stream=stream)
        self.last_use.record(stream)


class SlabPool:
    def __init__(self, shape):
        self.shape = shape
        self.free = []
        self.lock = threading.Lock()

    def take(self):
        with self.lock:
            memory = self.free.pop() if self.free else None
        if memory is None:
            memory = cupyx.empty_pinned(self.shape, np.float32)
        return Slab(self, memory)


class Uploader:
    def __init__(self, shape):
        self.pool = SlabPool(shape)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def put(self, data):
        slab = self.pool.take()
        np.copyto(slab.array, data)
        with self.stream:
            target = cp.empty(self.pool.shape, cp.float32)
        slab.upload(target, self.stream)
        return target


def main(shape=(1024, 1024), count=200):
    up = Uploader(shape)
    rng = np.random.default_rng(0)
    with up.stream:
        acc = cp.zeros(shape, cp.float32)
        for _ in range(count):
            acc += up.put(rng.random(shape, dtype=np.float32))
        print(float(acc.mean()))


if __name__ == "__main__":
    main()
