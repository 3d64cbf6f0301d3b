"""Column kernels over RMM buffers; each batch uses one stream for allocation, work and release."""
from typing import Iterable, List, Tuple

import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

_hash = cp.RawKernel(r"""
extern "C" __global__ void hash_rows(const long long* keys, unsigned int* out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long h = (unsigned long long)keys[i] * 0x9E3779B97F4A7C15ull;
    out[i] = (unsigned int)(h >> 32);
}""", "hash_rows")
_histogram = cp.RawKernel(r"""
extern "C" __global__ void histogram(const unsigned int* hashes, unsigned long long* counts, long long n, unsigned int parts) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[hashes[i] % parts], 1ull);
}""", "histogram")


class PartitionCounter:
    def __init__(self, num_partitions: int, num_streams: int = 3):
        rmm.reinitialize(pool_allocator=True)
        self.parts = num_partitions
        self.cupy_streams = [cp.cuda.Stream(non_blocking=True) for _ in range(num_streams)]
        self.rmm_streams = [Stream(s) for s in self.cupy_streams]
        self.pending: List[Tuple[int, rmm.DeviceBuffer]] = []

    def submit(self, index: int, keys: np.ndarray) -> None:
        slot = index % len(self.cupy_streams)
        stream, rmm_stream = self.cupy_streams[slot], self.rmm_streams[slot]
        keys = np.ascontiguousarray(keys, dtype=np.int64)
        device_keys = rmm.DeviceBuffer.to_device(keys.view(np.uint8), stream=rmm_stream)
        hashes = rmm.DeviceBuffer(size=4 * keys.size, stream=rmm_stream)
        counts = rmm.DeviceBuffer(size=8 * self.parts, stream=rmm_stream)
        cp.cuda.runtime.memsetAsync(counts.ptr, 0, counts.size, stream.ptr)
        grid, n = ((keys.size + 255) // 256,), np.int64(keys.size)
        with stream:
            _hash(grid, (256,), (np.uintp(device_keys.ptr), np.uintp(hashes.ptr), n))
            _histogram(grid, (256,), (np.uintp(hashes.ptr), np.uintp(counts.ptr), n, np.uint32(self.parts)))
        # device_keys and hashes go back to the pool in the order of this stream
        self.pending.append((slot, counts))

    def collect(self) -> np.ndarray:
        total = np.zeros(self.parts, dtype=np.uint64)
        for slot, counts in self.pending:
            host = counts.copy_to_host(stream=self.rmm_streams[slot])
            self.cupy_streams[slot].synchronize()
            total += np.asarray(host).view(np.uint64)
        self.pending.clear()
        return total


def count_partitions(batches: Iterable[np.ndarray], num_partitions: int) -> np.ndarray:
    counter = PartitionCounter(num_partitions)
    for index, keys in enumerate(batches):
        counter.submit(index, keys)
    return counter.collect()
