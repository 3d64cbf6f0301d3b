"""Spectral difference service: a stream-ordered block pool shared by three worker streams."""
from collections import defaultdict

import cupy as cp
import numpy as np


class StreamOrderedPool:
    """Free lists per stream; a block that was freed on another stream can be taken over."""

    def __init__(self):
        self._free = defaultdict(list)
        self._events = {}

    def _event(self, stream):
        event = self._events.get(stream.ptr)
        if event is None:
            event = self._events[stream.ptr] = cp.cuda.Event(disable_timing=True)
        return event

    @staticmethod
    def _take(blocks, nbytes):
        for k, block in enumerate(blocks):
            if block.size >= nbytes:
                return blocks.pop(k)
        return None

    def _merge_lists(self, stream, other_ptr):
        stream.wait_event(self._events[other_ptr])
        self._free[stream.ptr].extend(self._free[other_ptr])
        self._free[other_ptr].clear()

    def allocate(self, nbytes, stream):
        own = self._free[stream.ptr]
        block = self._take(own, nbytes)
        if block is not None:
            return block
        self._event(stream)
        for other_ptr in list(self._free):
            if other_ptr == stream.ptr or not self._free[other_ptr]:
                continue
            self._merge_lists(stream, other_ptr)
            block = self._take(own, nbytes)
            if block is not None:
                return block
        return cp.cuda.Memory(nbytes)

    def deallocate(self, block, stream):
        self._event(stream).record(stream)
        self._free[stream.ptr].append(block)


def view(block, n, dtype=np.float32):
    return cp.ndarray((n,), dtype, cp.cuda.MemoryPointer(block, 0))


class Worker:
    def __init__(self, pool):
        self.pool = pool
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.blocks = []

    def reserve(self, sizes):
        self.blocks = [self.pool.allocate(nbytes, self.stream) for nbytes in sizes]

    def release(self):
        for block in self.blocks:
            self.pool.deallocate(block, self.stream)
        self.blocks = []

    def difference(self, a, b, out):
        n = a.size
        left, right = (view(block, n) for block in self.blocks)
        with self.stream:
            cp.multiply(a, 0.5, out=left)
            cp.multiply(b, 0.5, out=right)
            for _ in range(200):
                cp.sin(left, out=left)
            cp.subtract(left, right, out=out)

    def envelope(self, a, out):
        tmp = view(self.blocks[0], a.size)
        with self.stream:
            cp.absolute(a, out=tmp)
            cp.maximum(tmp, 0.25, out=out)


class DifferenceService:
    def __init__(self):
        self.pool = StreamOrderedPool()
        self.pair = Worker(self.pool)
        self.left = Worker(self.pool)
        self.right = Worker(self.pool)

    def submit(self, a, b, out):
        nbytes = a.nbytes
        self.pair.reserve([nbytes, nbytes])
        self.pair.difference(a, b, out["diff"])
        self.pair.release()
        self.left.reserve([nbytes])
        self.right.reserve([nbytes])
        self.left.envelope(a, out["env_a"])
        self.right.envelope(b, out["env_b"])
        self.left.release()
        self.right.release()

    def finish(self):
        for worker in (self.pair, self.left, self.right):
            worker.stream.synchronize()


def main(n=1 << 22):
    rng = np.random.default_rng(11)
    a = cp.asarray(rng.standard_normal(n, dtype=np.float32))
    b = cp.asarray(rng.standard_normal(n, dtype=np.float32))
    out = {key: cp.empty(n, cp.float32) for key in ("diff", "env_a", "env_b")}
    cp.cuda.Device().synchronize()
    service = DifferenceService()
    for _ in range(20):
        service.submit(a, b, out)
    service.finish()
    print({key: float(value.sum()) for key, value in out.items()})


if __name__ == "__main__":
    main()
