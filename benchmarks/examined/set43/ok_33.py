"""Join of two keyed tables with RMM scratch buffers and CuPy kernels."""
import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator
from rmm.pylibrmm.stream import Stream

PROBE = cp.RawKernel(r"""
extern "C" __global__
void probe(const int* keys, const int* slots, int* match, int n, int mask) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    int h = (keys[i] * 0x9E3779B1u) & mask;
    match[i] = -1;
    for (int k = 0; k <= mask; ++k) {
        int s = slots[2 * ((h + k) & mask)];
        if (s == -1) return;
        if (s == keys[i]) { match[i] = slots[2 * ((h + k) & mask) + 1]; return; }
    }
}
""", "probe")

BUILD = cp.RawKernel(r"""
extern "C" __global__
void build(const int* keys, int* slots, int n, int mask) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    int h = (keys[i] * 0x9E3779B1u) & mask;
    while (atomicCAS(&slots[2 * h], -1, keys[i]) != -1) h = (h + 1) & mask;
    slots[2 * h + 1] = i;
}
""", "build")


def as_int32(buf):
    mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
    return cp.ndarray(buf.size // 4, cp.int32, cp.cuda.MemoryPointer(mem, 0))


class HashTable:
    """Open addressing table; storage lives in one DeviceBuffer."""

    def __init__(self, keys, stream):
        self.stream = stream
        capacity = 1 << int(np.ceil(np.log2(2 * keys.size)))
        self.mask = np.int32(capacity - 1)
        self.buf = rmm.DeviceBuffer(size=capacity * 8, stream=Stream(stream))
        self.slots = as_int32(self.buf)
        with stream:
            self.slots.fill(-1)
            BUILD(((keys.size + 255) // 256,), (256,),
                  (keys, self.slots, np.int32(keys.size), self.mask))
        self.built = stream.record()

    def lookup(self, keys, stream):
        stream.wait_event(self.built)
        with stream:
            match = cp.empty(keys.size, dtype=cp.int32)
            PROBE(((keys.size + 255) // 256,), (256,),
                  (keys, self.slots, match, np.int32(keys.size), self.mask))
        self.stream.wait_event(stream.record())
        return match

    def drop(self):
        self.slots = None
        self.buf = None


class Joiner:
    def __init__(self):
        self.build = cp.cuda.Stream(non_blocking=True)
        self.probe = cp.cuda.Stream(non_blocking=True)

    def inner(self, left_host, right_host):
        with self.build:
            right = cp.asarray(right_host)
        table = HashTable(right, self.build)
        with self.probe:
            left = cp.asarray(left_host)
        match = table.lookup(left, self.probe)
        table.drop()
        with self.probe:
            rows = cp.nonzero(match >= 0)[0]
            pairs = cp.stack([rows.astype(cp.int32), match[rows]], axis=1)
            return pairs.get()


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    cp.cuda.set_allocator(rmm_cupy_allocator)
    rng = np.random.default_rng(0)
    joiner = Joiner()
    for _ in range(5):
        right = rng.permutation(2_000_000).astype(np.int32)[:500_000]
        left = rng.integers(0, 2_000_000, 1_000_000, dtype=np.int32)
        pairs = joiner.inner(left, right)
        print(len(pairs), bool((left[pairs[:, 0]] == right[pairs[:, 1]]).all()))


if __name__ == "__main__":
    main()
