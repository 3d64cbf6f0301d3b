"""Pooled PyCUDA allocations that return to the pool only when their stream is past them."""
from collections import deque

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.tools
from pycuda.compiler import SourceModule

SOURCE = """
__global__ void gather_sum(const float *table, const int *rows, float *out, int n, int dim)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= dim) return;
    float acc = 0.f;
    for (int i = 0; i < n; ++i) acc += table[(size_t) rows[i] * dim + d];
    out[d] = acc;
}
"""


class Retired:
    def __init__(self, stream, *resources):
        self.event = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.event.record(stream)
        self.resources = resources


class BagEncoder:
    def __init__(self, table, streams=4, max_retired=64):
        self.table_rows, self.dim = table.shape
        self.table = drv.to_device(np.ascontiguousarray(table, dtype=np.float32))
        self.kernel = SourceModule(SOURCE).get_function("gather_sum")
        self.pool = pycuda.tools.DeviceMemoryPool()
        self.host_pool = pycuda.tools.PageLockedMemoryPool()
        self.streams = [drv.Stream() for _ in range(streams)]
        self.retired = deque()
        self.max_retired = max_retired
        self.turn = 0

    def _reap(self):
        while len(self.retired) > self.max_retired:
            self.retired[0].event.synchronize()
            self.retired.popleft()
        while self.retired and self.retired[0].event.query():
            self.retired.popleft()

    def encode(self, bag, out):
        bag = np.asarray(bag, dtype=np.int32)
        if bag.size and (bag.min() < 0 or bag.max() >= self.table_rows):
            raise IndexError("row out of range")
        self._reap()
        stream = self.streams[self.turn]
        self.turn = (self.turn + 1) % len(self.streams)
        rows_host = self.host_pool.allocate((max(bag.size, 1),), np.int32)
        rows_host[:bag.size] = bag
        rows = self.pool.allocate(rows_host.nbytes)
        total = self.pool.allocate(self.dim * 4)
        try:
            drv.memcpy_htod_async(rows, rows_host, stream)
            self.kernel(self.table, rows, total, np.int32(bag.size), np.int32(self.dim),
                        block=(128, 1, 1), grid=((self.dim + 127) // 128, 1), stream=stream)
            drv.memcpy_dtoh_async(out, total, stream)
        finally:
            self.retired.append(Retired(stream, rows_host, rows, total))

    def finish(self):
        for stream in self.streams:
            stream.synchronize()
        self.retired.clear()


def encode_all(encoder, bags):
    out = drv.pagelocked_zeros((max(len(bags), 1), encoder.dim), np.float32)
    try:
        for i, bag in enumerate(bags):
            encoder.encode(bag, out[i])
    finally:
        encoder.finish()
    return out[:len(bags)]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    enc = BagEncoder(rng.standard_normal((5000, 300)))
    vectors = encode_all(enc, [rng.integers(0, 5000, rng.integers(0, 60)) for _ in range(500)])
    print(vectors.shape, float(np.abs(vectors).mean()))
