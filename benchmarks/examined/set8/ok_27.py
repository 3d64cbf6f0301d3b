import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator
from rmm.pylibrmm.stream import Stream


def setup_pool(initial=1 << 28):
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=initial))
    cp.cuda.set_allocator(rmm_cupy_allocator)


def as_array(buf, dtype):
    n = buf.size // np.dtype(dtype).itemsize
    mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
    return cp.ndarray((n,), dtype, cp.cuda.MemoryPointer(mem, 0))


class PartitionWorker:

    def __init__(self, bins):
        self.bins = bins
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rmm_stream = Stream(self.stream)
        with self.stream:
            self.counts = cp.zeros(bins, dtype=cp.int64)

    def _load(self, part):
        return rmm.DeviceBuffer.to_device(part.tobytes(), stream=self.rmm_stream)

    def add(self, part):
        with self.stream:
            buf = self._load(part)
            values = as_array(buf, part.dtype)
            codes = cp.clip((values * self.bins).astype(cp.int64), 0, self.bins - 1)
            del values, buf
            order = cp.sort(codes)
            edges = cp.searchsorted(order, cp.arange(self.bins + 1))
            del order, codes
            self.counts += cp.diff(edges)

    def result(self):
        host = self.counts.get(stream=self.stream)
        self.stream.synchronize()
        return host


def histogram(partitions, bins=64, n_workers=4):
    setup_pool()
    workers = [PartitionWorker(bins) for _ in range(n_workers)]
    for i, part in enumerate(partitions):
        workers[i % n_workers].add(part)
    total = np.zeros(bins, dtype=np.int64)
    for worker in workers:
        total += worker.result()
    return total
