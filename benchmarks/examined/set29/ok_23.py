"""Query engine utilities: run an operator on a fresh stream while the inputs
belong to the streams that produced them."""
import contextlib
from typing import List, Sequence

import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream as RmmStream


class StreamPool:
    def __init__(self, n: int = 4):
        self._streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n)]
        self._next = 0

    def get(self) -> cp.cuda.Stream:
        s = self._streams[self._next]
        self._next = (self._next + 1) % len(self._streams)
        return s


def join_cuda_streams(downstreams: Sequence[cp.cuda.Stream], upstreams: Sequence[cp.cuda.Stream]):
    for up in upstreams:
        event = up.record()
        for down in downstreams:
            if down is not up:
                down.wait_event(event)


class Column:
    def __init__(self, count: int, stream: cp.cuda.Stream):
        self.stream = stream
        self.count = count
        self.buf = rmm.DeviceBuffer(size=count * 4, stream=RmmStream(obj=stream))

    @property
    def values(self) -> cp.ndarray:
        mem = cp.cuda.UnownedMemory(self.buf.ptr, self.count * 4, self.buf)
        return cp.ndarray((self.count,), dtype=cp.float32, memptr=cp.cuda.MemoryPointer(mem, 0))


class IRExecutionContext:
    def __init__(self):
        self.pool = StreamPool()

    @contextlib.contextmanager
    def stream_ordered_after(self, *inputs: Column):
        result_stream = self.pool.get()
        ups = [c.stream for c in inputs]
        join_cuda_streams((result_stream,), ups)
        try:
            yield result_stream
        finally:
            join_cuda_streams(ups, (result_stream,))


def scan(ctx: IRExecutionContext, chunk: np.ndarray) -> Column:
    stream = ctx.pool.get()
    col = Column(chunk.size, stream)
    with stream:
        col.values.set(chunk)
    return col


def concat(ctx: IRExecutionContext, parts: List[Column]) -> Column:
    with ctx.stream_ordered_after(*parts) as stream:
        out = Column(sum(p.count for p in parts), stream)
        with stream:
            pos = 0
            dst = out.values
            for p in parts:
                dst[pos:pos + p.count] = p.values
                pos += p.count
    return out


def total(ctx: IRExecutionContext, chunks: Sequence[np.ndarray]) -> float:
    pieces = [scan(ctx, c) for c in chunks]
    merged = concat(ctx, pieces)
    del pieces
    with ctx.stream_ordered_after(merged) as stream:
        with stream:
            acc = merged.values.sum(dtype=cp.float64)
    del merged
    with stream:
        return float(acc.get())


if __name__ == "__main__":
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    ctx = IRExecutionContext()
    rows = np.random.default_rng(1).random(1 << 22, dtype=np.float32)
    for _ in range(8):
        print(total(ctx, np.array_split(rows, 3)))
