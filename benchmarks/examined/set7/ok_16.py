from contextlib import contextmanager
from typing import Iterator, List, Tuple

import cupy as cp
import rmm
import rmm.mr
from rmm.pylibrmm.stream import Stream

HIST_KERNEL = cp.RawKernel(
    r"""
extern "C" __global__
void partial_hist(const unsigned char* x, unsigned int* part, const long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int* mine = part + 256 * (blockIdx.x % 64);
    for (; i < n; i += (long long)gridDim.x * blockDim.x)
        atomicAdd(mine + x[i], 1u);
}
""",
    "partial_hist",
)


class ScratchArena:
    """Short lived scratch memory of histogram and sort passes."""

    def __init__(self, initial_pool_size: int):
        self.mr = rmm.mr.PoolMemoryResource(
            rmm.mr.CudaMemoryResource(), initial_pool_size=initial_pool_size
        )

    @contextmanager
    def scratch(self, nbytes: int, stream: cp.cuda.Stream) -> Iterator[cp.cuda.MemoryPointer]:
        rmm_stream = Stream(stream)
        ptr = self.mr.allocate(nbytes, stream=rmm_stream)
        mem = cp.cuda.UnownedMemory(ptr, nbytes, owner=self)
        try:
            yield cp.cuda.MemoryPointer(mem, 0)
        finally:
            self.mr.deallocate(ptr, nbytes, stream=rmm_stream)


class HistogramWorker:
    def __init__(self, arena: ScratchArena, n_streams: int = 4):
        self.arena = arena
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n_streams)]

    def _one(self, x: cp.ndarray, out: cp.ndarray, stream: cp.cuda.Stream) -> None:
        nbytes = 64 * 256 * 4
        with stream, self.arena.scratch(nbytes, stream) as ptr:
            part = cp.ndarray((64, 256), dtype=cp.uint32, memptr=ptr)
            part.fill(0)
            HIST_KERNEL((512,), (256,), (x, part, cp.int64(x.size)))
            cp.sum(part, axis=0, dtype=cp.uint32, out=out)

    def run(self, chunks: List[cp.ndarray]) -> cp.ndarray:
        out = cp.zeros((len(chunks), 256), dtype=cp.uint32)
        ready = cp.cuda.get_current_stream().record()
        for s in self.streams:
            s.wait_event(ready)
        for i, chunk in enumerate(chunks):
            self._one(chunk, out[i], self.streams[i % len(self.streams)])
        for s in self.streams:
            cp.cuda.get_current_stream().wait_event(s.record())
        return out


def byte_entropy(chunks: List[cp.ndarray], pool_bytes: int = 1 << 28) -> Tuple[cp.ndarray, cp.ndarray]:
    worker = HistogramWorker(ScratchArena(pool_bytes))
    hist = worker.run(chunks)
    p = hist / hist.sum(axis=1, keepdims=True)
    h = -cp.sum(cp.where(p > 0, p * cp.log2(p), 0), axis=1)
    return hist, h
