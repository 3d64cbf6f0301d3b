"""Block-sparse matvec with RMM scratch buffers filled by a loader stream."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream as RmmStream


def as_array(buf, shape, dtype):
    mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
    return cp.ndarray(shape, dtype, cp.cuda.MemoryPointer(mem, 0))


class ScratchLease:
    """Stream-ordered scratch memory which is also read by a borrower stream."""

    def __init__(self, shape, dtype, owner, borrower):
        self.owner, self.borrower = owner, borrower
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self._buf = rmm.DeviceBuffer(size=nbytes, stream=RmmStream(owner))
        self.array = as_array(self._buf, shape, dtype)

    def lend(self):
        self.borrower.wait_event(self.owner.record())
        return self.array

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.owner.wait_event(self.borrower.record())
        self.array = None
        self._buf = None


class BlockMatvec:
    def __init__(self, n, tile=2048):
        self.tile = tile
        self.loader = cp.cuda.Stream(non_blocking=True)
        self.solver = cp.cuda.Stream(non_blocking=True)
        with self.solver:
            self.x = cp.ones(n, cp.float32)
            self.y = cp.zeros(n, cp.float32)

    def add(self, row, col, density):
        t = self.tile
        with ScratchLease((t, t), cp.float32, self.loader, self.solver) as lease:
            with self.loader:
                lease.array.fill(density)
            with self.solver:
                block = lease.lend()
                self.y[row:row + t] += block @ self.x[col:col + t]
                del block

    def result(self):
        with self.solver:
            return self.y.get()


def main(n=1 << 16):
    pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 30)
    rmm.mr.set_current_device_resource(pool)
    mv = BlockMatvec(n)
    for i in range(0, n, mv.tile):
        mv.add(i, (i * 7) % n, 1.0 / mv.tile)
    print(mv.result().sum())


if __name__ == "__main__":
    main()
