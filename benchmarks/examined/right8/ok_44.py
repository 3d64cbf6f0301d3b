"""RMM resource used by hand: workspace allocated, used and returned on one stream."""
import contextlib
import math

import cupy as cp
import rmm
from rmm.pylibrmm.stream import Stream


class Workspace:
    def __init__(self, mr):
        self.mr = mr

    @contextlib.contextmanager
    def array(self, shape, dtype):
        stream = cp.cuda.get_current_stream()
        rstream = Stream(stream)
        nbytes = math.prod(shape) * cp.dtype(dtype).itemsize
        ptr = self.mr.allocate(nbytes, stream=rstream)
        mem = cp.cuda.UnownedMemory(ptr, nbytes, self)
        try:
            yield cp.ndarray(shape, dtype, cp.cuda.MemoryPointer(mem, 0))
        finally:
            self.mr.deallocate(ptr, nbytes, stream=rstream)


class BlockedGram:
    """Gram matrix of a tall matrix by row panels."""

    def __init__(self, cols, panel):
        self.cols, self.panel = cols, panel
        self.ws = Workspace(rmm.mr.PoolMemoryResource(
            rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 26))
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]

    def partial(self, seed):
        with self.ws.array((self.panel, self.cols), cp.float32) as a, \
                self.ws.array((self.cols, self.cols), cp.float32) as g:
            a[...] = cp.arange(a.size, dtype=cp.float32).reshape(a.shape) % (seed + 2)
            cp.matmul(a.T, a, out=g)
            return g.copy()

    def run(self, panels):
        parts = []
        for k in range(panels):
            with self.streams[k % 2]:
                parts.append(self.partial(k))
        for s in self.streams:
            s.synchronize()
        return sum(p.get() for p in parts)


if __name__ == "__main__":
    print(BlockedGram(128, 2048).run(6).trace())
