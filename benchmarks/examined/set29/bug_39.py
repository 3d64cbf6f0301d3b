"""Deferred release of host staging memory: a host function on the stream
gives a pinned block back to the free list once the device is done with it."""
import queue

import cupy as cp
import numpy as np

BLOCK = 1 << 22


class PinnedBlock:
    def __init__(self, nbytes):
        self.mem = cp.cuda.alloc_pinned_memory(nbytes)
        self.view = np.frombuffer(self.mem, dtype=np.uint8, count=nbytes)


class DeferredReleaser:
    def __init__(self, n_blocks):
        self.free = queue.SimpleQueue()
        for _ in range(n_blocks):
            self.free.put(PinnedBlock(BLOCK))

    def acquire(self):
        return self.free.get()

    def release_on(self, stream, block):
        stream.launch_host_func(self.free.put, block)


class StreamContext:
    def __init__(self, releaser):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.releaser = releaser

    def scratch(self, values):
        """Pinned copy of ``values`` that lives as long as the stream needs it."""
        block = self.releaser.acquire()
        block.view[:values.nbytes] = values.view(np.uint8).ravel()
        self.releaser.release_on(self.stream, block)
        return block

    def upload(self, dst, values):
        block = self.scratch(values)
        cp.cuda.runtime.memcpyAsync(dst.data.ptr, block.mem.ptr, values.nbytes,
                                    cp.cuda.runtime.memcpyHostToDevice, self.stream.ptr)


class Gather:
    """Sums rows of a table that are selected by host-side index lists."""

    def __init__(self, ctx, table):
        self.ctx = ctx
        self.table = table
        self.index = cp.zeros(BLOCK // 8, dtype=cp.int64)
        self.acc = cp.zeros(table.shape[1], dtype=cp.float32)

    def __call__(self, rows):
        self.ctx.upload(self.index, rows)
        with self.ctx.stream:
            self.acc += self.table[self.index[:rows.size]].sum(axis=0)

    def result(self):
        return self.acc.get(stream=self.ctx.stream)


def main():
    rng = np.random.default_rng(0)
    table = cp.asarray(rng.random((100_000, 64), dtype=np.float32))
    gather = Gather(StreamContext(DeferredReleaser(3)), table)
    cp.cuda.Device().synchronize()
    for _ in range(200):
        gather(rng.integers(0, 100_000, size=400_000))
    print(gather.result()[:4])


if __name__ == "__main__":
    main()
