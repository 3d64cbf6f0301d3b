"""Pinned arena for small meta-data uploads of field-array pointers."""
import cupy as cp
import numpy as np


class PinnedArena:
    def __init__(self, stream, nbytes=4096, count=8):
        self.stream = stream
        self.nbytes = nbytes
        self.count = count
        self.free_blocks = [cp.cuda.alloc_pinned_memory(nbytes) for _ in range(count)]
        self.parked = []

    def allocate(self):
        if not self.free_blocks:
            self.sync_and_reclaim()
        return self.free_blocks.pop()

    def deallocate(self, block):
        self.parked.append(block)

    def sync_and_reclaim(self):
        self.stream.synchronize()
        self.free_blocks.extend(self.parked)
        self.parked.clear()


class FabArray:
    def __init__(self, nfab, ncell, stream, arena):
        self.stream = stream
        self.arena = arena
        with stream:
            self.fabs = [cp.zeros(ncell, dtype=cp.float32) for _ in range(nfab)]
            self.table = cp.empty(nfab, dtype=cp.uint64)

    def build_arrays(self):
        nfab = len(self.fabs)
        block = self.arena.allocate()
        host = np.frombuffer(block, dtype=np.uint64, count=nfab)
        for i, fab in enumerate(self.fabs):
            host[i] = fab.data.ptr
        cp.cuda.runtime.memcpyAsync(self.table.data.ptr, block.ptr, nfab * 8,
                                    cp.cuda.runtime.memcpyHostToDevice, self.stream.ptr)
        self.arena.deallocate(block)
        return self.table


SCALE = cp.RawKernel(r"""
extern "C" __global__ void scale_all(float** fabs, int ncell, float s) {
    float* f = fabs[blockIdx.y];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < ncell) f[i] = f[i] * s + 1.0f;
}
""", "scale_all")


def advance(fa, ncell, scale):
    table = fa.build_arrays()
    grid = ((ncell + 255) // 256, len(fa.fabs))
    with fa.stream:
        SCALE(grid, (256,), (table, np.int32(ncell), np.float32(scale)))
        fa.fabs.append(fa.fabs.pop(0))


def main(nfab=12, ncell=1 << 16, nsteps=100):
    stream = cp.cuda.Stream(non_blocking=True)
    arena = PinnedArena(stream)
    fa = FabArray(nfab, ncell, stream, arena)
    for step in range(nsteps):
        advance(fa, ncell, 0.5 + 0.001 * step)
    arena.sync_and_reclaim()
    with stream:
        total = sum(float(f.sum()) for f in fa.fabs)
    return total


if __name__ == "__main__":
    print(main())
